// bench_many_workers FLOATS WARM_UP_STEPS CONFIG: all nodes of a run in one process, each with its own
// connections, threads and client, against an ordinary paceline-server. Each begins its next step as soon as
// it is granted and computes nothing (a closed loop), so what is left is the exchange, and who waits how long
// for it.
//
// Measured between the moment when the last worker has warmed up and that when the first has ended, while all
// of them are at it. Prints one line:
//   {"clients": …, "steps_per_second": …, "p50_ms": …, "p99_ms": …,
//    "slowest_of_mean": …, "fastest_of_mean": …}
// p50 and p99 are of the time from the beginning of a worker's step to that of its next; the last two are the
// rates of the slowest and of the fastest worker over the mean rate.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/config/load.h"
#include "common/wire/memory.h"
#include "common/wire/transport.h"
#include "tests/bench/exchange/no_compute_task.h"
#include "worker/node.h"

namespace {

using namespace paceline;
using Time = std::chrono::steady_clock::time_point;

struct Span {
  Time begin, end;
};

struct Client {
  explicit Client(std::int64_t warm_up_steps) : times(warm_up_steps) {}
  bench::StepTimes times;
  std::unique_ptr<Node> node;
  std::thread thread;
  Status ended;
};

void print(const std::vector<std::vector<Time>>& begins) {
  Span all{begins.front().front(), begins.front().back()};
  for (const std::vector<Time>& one : begins) {
    all.begin = std::max(all.begin, one.front());
    all.end = std::min(all.end, one.back());
  }
  std::vector<double> seconds;
  std::vector<double> counts;
  for (const std::vector<Time>& one : begins) {
    const std::size_t before = seconds.size();
    for (std::size_t k = 1; k < one.size(); ++k) {
      if (one[k - 1] >= all.begin && one[k] <= all.end)
        seconds.push_back(std::chrono::duration<double>(one[k] - one[k - 1]).count());
    }
    counts.push_back(static_cast<double>(seconds.size() - before));
  }
  const auto steps = static_cast<double>(seconds.size());
  const double mean = steps / static_cast<double>(counts.size());
  std::sort(seconds.begin(), seconds.end());
  const auto quantile = [&](double q) {
    return seconds.empty() ? 0.0 : 1e3 * seconds[static_cast<std::size_t>(q * (steps - 1))];
  };
  const auto [slowest, fastest] = std::minmax_element(counts.begin(), counts.end());
  std::cout << "{\"clients\": " << begins.size() << ", \"steps_per_second\": "
            << steps / std::chrono::duration<double>(all.end - all.begin).count()
            << ", \"p50_ms\": " << quantile(0.5) << ", \"p99_ms\": " << quantile(0.99)
            << ", \"slowest_of_mean\": " << *slowest / mean << ", \"fastest_of_mean\": " << *fastest / mean
            << "}\n";
}

int run(std::int64_t floats, std::int64_t warm_up, const std::string& config_path) {
  const auto config = load_config(config_path, {});
  if (!config.is_ok()) return std::cerr << config.status().message() << '\n', 2;
  wire::Context context;
  std::vector<std::unique_ptr<Client>> clients;
  for (std::uint32_t n = 0; n < config->cluster.nodes; ++n) {
    auto client = std::make_unique<Client>(warm_up);
    client->node = std::make_unique<Node>(*config, NodeId(n), context,
                                          std::make_unique<bench::NoComputeTasks>(floats, client->times));
    clients.push_back(std::move(client));
  }
  for (auto& client : clients) client->thread = std::thread([&c = *client] { c.ended = c.node->run(); });
  for (auto& client : clients) client->thread.join();
  std::vector<std::vector<Time>> begins;
  for (const auto& client : clients) {
    if (!client->ended.is_ok()) return std::cerr << client->ended.message() << '\n', 1;
    begins.push_back(client->times.begins());
    if (begins.back().size() < 2) return std::cerr << "a worker did not get beyond its warm-up\n", 1;
  }
  print(begins);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  paceline::wire::keep_freed_memory();
  const std::int64_t floats = argc == 4 ? std::atoll(argv[1]) : 0;
  const std::int64_t warm_up = argc == 4 ? std::atoll(argv[2]) : 0;
  if (floats < 1 || warm_up < 1) {
    std::cerr << "usage: bench_many_workers FLOATS WARM_UP_STEPS CONFIG\n";
    return 2;
  }
  return run(floats, warm_up, argv[3]);
}
