// All-reduce among processes of this machine: every algorithm of ours, over tcp on the loopback or in shared memory,
// beside Gloo's over tcp and a raw loop of the same bytes, in turns in one run.
//
//   bench_allreduce [--ranks 2] [--turns 15] [--sizes 4096,262144,4194304,67108864] [--memory sent | shared]
//                   [--ms 100] [--without 4096:gloo bcube,…] [--keys yes]
//
// A turn of an algorithm is so many reductions as take --ms, after one that is not counted; its figure is rank
// 0's time for one of them. Printed are the median and the least of all turns, in ms, the median of what rank 0's
// threads had of the processors, and ours over the best of Gloo's. `auto` is what a run chooses: it is measured at the
// start, as there (worker/allreduce/measured_choice.h). --keys yes: ours are sealed, as in a run with keys.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/schedule/planners.h"
#include "common/ticks.h"
#include "tests/bench/exchange/raw_ring.h"
#include "tests/bench/median.h"
#include "worker/allreduce/measured_choice.h"
#include "worker/mesh/mesh.h"

namespace paceline::bench {
namespace {

struct Options {
  std::uint32_t ranks = 2;
  int turns = 15;
  std::vector<std::int64_t> sizes = {4096, 262144, 4194304, 67108864};
  bool shares = false;
  double ms = 100.0;
  std::set<std::string> without;  // "4096:gloo bcube"
  std::optional<FormationKey> key;
};

constexpr std::chrono::milliseconds kWithin(60'000);
// So many times as long as the best, and so many seconds: left out, of this size and of larger ones. Gloo's ring among
// four ranks has been seen to take 4 s for 4 MiB.
constexpr double kHopeless = 100.0, kHopelessSeconds = 0.1;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "bench_allreduce: %s\n", why.c_str());
  std::_Exit(1);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Of the processors, by all threads of this process.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// One way of summing a vector of one size: a call is one reduction.
struct Contender {
  enum class Whose { kOurs, kGloo, kNobody };
  std::string name;
  Whose whose = Whose::kOurs;
  std::function<void()> reduce;
};

class Rank {
 public:
  Rank(const Options& options, std::uint32_t rank, const mesh::Listening& listening,
       const std::vector<std::string>& endpoints, const std::string& store, const RingEnds& ring)
      : options_(options), rank_(rank), ring_(ring) {
    if (options.shares) {
      const std::int64_t largest = *std::max_element(options.sizes.begin(), options.sizes.end());
      auto segment = wire::SharedSegment::create(mesh::SharedPeers::segment_bytes(
          largest / static_cast<std::int64_t>(sizeof(float)), options.ranks));
      if (!segment.is_ok()) fail(segment.status().message());
      segment_ = std::move(segment).value();
    }
    auto mesh = mesh::Mesh::connect(listening, {rank, endpoints, 1, {}, options.shares, options.key}, stop_,
                                    kWithin, segment_);
    if (!mesh.is_ok()) fail(mesh.status().message());
    mesh_ = std::move(mesh).value();
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    gloo_ =
        std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), static_cast<int>(options.ranks));
    gloo::rendezvous::FileStore files(store);
    gloo_->connectFullMesh(files, device);
  }

  void run() {
    choose();
    for (const std::int64_t bytes : options_.sizes) measure(bytes);
  }

 private:
  std::pmr::vector<float> vector_of(std::int64_t bytes) const {
    std::pmr::memory_resource* const memory =
        segment_ == nullptr ? std::pmr::get_default_resource() : segment_.get();
    return std::pmr::vector<float>(static_cast<std::size_t>(bytes) / sizeof(float), 0.0F, memory);
  }

  // As a run does whose buckets have these sizes.
  void choose() {
    std::pmr::vector<float> vector =
        vector_of(*std::max_element(options_.sizes.begin(), options_.sizes.end()));
    std::vector<std::int64_t> floats;
    for (const std::int64_t bytes : options_.sizes) {
      floats.push_back(bytes / static_cast<std::int64_t>(sizeof(float)));
    }
    const MeasureRequest request{
        .place = {rank_, options_.ranks, std::vector<std::uint32_t>(options_.ranks, 0)},
        .floats = floats,
        .vector = vector,
        .silence = kWithin,
        .now = steady_now};
    auto choices = measure_choices(request, *mesh_, number_);
    if (!choices.is_ok()) fail(choices.status().message());
    choices_ = std::move(choices).value();
  }

  Contender ours(const std::string& name, schedule::Algorithm algorithm, std::span<float> vector) {
    schedule::PlanRequest request{algorithm, options_.ranks, std::ssize(vector), {}};
    request.machines.assign(options_.ranks, 0);
    const auto plan = schedule::make_plan(request);
    if (!plan.is_ok()) fail(plan.status().message());
    auto program = std::make_shared<const schedule::Program>(*plan, rank_);
    return {name, Contender::Whose::kOurs, [this, program, vector] {
              const Status reduced = mesh_->reduce(*program, vector, number_++, kWithin);
              if (!reduced.is_ok()) fail(reduced.message());
            }};
  }

  std::vector<Contender> contenders(std::span<float> vector) {
    const auto floats = static_cast<std::int64_t>(vector.size());
    std::vector<Contender> all;
    for (const auto algorithm :
         {schedule::Algorithm::kRing, schedule::Algorithm::kBinaryBlocks, schedule::Algorithm::kTorus,
          schedule::Algorithm::kDirect, schedule::Algorithm::kTree}) {
      all.push_back(ours(schedule::name_of(algorithm), algorithm, vector));
    }
    all.push_back(ours("auto", chosen_for(choices_, floats), vector));
    const auto add = static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>);
    for (const auto& [name, algorithm] :
         {std::pair{"gloo ring", gloo::AllreduceOptions::Algorithm::RING},
          std::pair{"gloo bcube", gloo::AllreduceOptions::Algorithm::BCUBE}}) {
      all.push_back({name, Contender::Whose::kGloo, [this, vector, add, algorithm = algorithm] {
                       gloo::AllreduceOptions options(gloo_);
                       options.setAlgorithm(algorithm);
                       options.setOutput(vector.data(), vector.size());
                       options.setReduceFunction(add);
                       // One each: with one for both, four ranks have come to wait for each other in Gloo.
                       options.setTag(static_cast<std::uint32_t>(algorithm));
                       gloo::allreduce(options);
                     }});
    }
    const std::vector<float*> pointers = {vector.data()};
    auto halving =
        std::make_shared<gloo::AllreduceHalvingDoubling<float>>(gloo_, pointers, static_cast<int>(floats));
    all.push_back({"gloo halving-doubling", Contender::Whose::kGloo, [halving] { halving->run(); }});
    auto chunked =
        std::make_shared<gloo::AllreduceRingChunked<float>>(gloo_, pointers, static_cast<int>(floats));
    all.push_back({"gloo ring-chunked", Contender::Whose::kGloo, [chunked] { chunked->run(); }});
    if (!options_.shares) {
      all.push_back({"raw", Contender::Whose::kNobody, [this, vector] {
                       if (!go_around(ring_, options_.ranks, vector)) fail("the raw loop broke off");
                     }});
    }
    std::erase_if(all, [&](const Contender& one) {
      return hopeless_.contains(one.name) ||
             options_.without.contains(std::to_string(vector.size_bytes()) + ":" + one.name);
    });
    return all;
  }

  // As many as take so long by rank 0's clock, which all ranks are told by a sum; 0 of one that is hopeless
  // beside the best before it.
  int reductions_of_a_turn(const Contender& contender, double& best) {
    contender.reduce();
    const double began = seconds();
    contender.reduce();
    const double once = seconds() - began;
    best = std::min(best, once);
    std::vector<float> reported = {0.0F};
    if (rank_ == 0 && once < std::max(kHopeless * best, kHopelessSeconds))
      reported[0] = static_cast<float>(std::clamp(1e-3 * options_.ms / once, 1.0, 400.0));
    sum(reported);
    return static_cast<int>(reported[0]);
  }

  void sum(std::span<float> vector) {
    const auto plan =
        schedule::make_plan({schedule::Algorithm::kTree, options_.ranks, std::ssize(vector), {}});
    const Status reduced = mesh_->reduce(schedule::Program(*plan, rank_), vector, number_++, kWithin);
    if (!reduced.is_ok()) fail(reduced.message());
  }

  void measure(std::int64_t bytes) {
    std::pmr::vector<float> vector = vector_of(bytes);
    std::vector<Contender> all = contenders(vector);
    std::vector<int> counts;
    double best = std::numeric_limits<double>::max();
    for (const Contender& contender : all) {
      counts.push_back(reductions_of_a_turn(contender, best));
      if (counts.back() == 0) hopeless_.insert(contender.name);
    }
    std::erase(counts, 0);
    std::erase_if(all, [&](const Contender& one) { return hopeless_.contains(one.name); });
    std::vector<std::vector<double>> figures(all.size());
    std::vector<std::vector<double>> processor(all.size());
    for (int turn = 0; turn < options_.turns; ++turn) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].reduce();
        const double began = seconds();
        const double processor_began = processor_seconds();
        for (int k = 0; k < counts[i]; ++k) all[i].reduce();
        figures[i].push_back(1e3 * (seconds() - began) / counts[i]);
        processor[i].push_back(1e3 * (processor_seconds() - processor_began) / counts[i]);
      }
    }
    if (rank_ == 0) print(bytes, all, figures, processor);
  }

  void print(std::int64_t bytes, const std::vector<Contender>& all,
             const std::vector<std::vector<double>>& figures,
             const std::vector<std::vector<double>>& processor) const {
    double best[3] = {1e300, 1e300, 1e300};
    std::printf("%lld bytes, %u processes, ours %s\n", static_cast<long long>(bytes), options_.ranks,
                options_.shares ? "in shared memory" : "over tcp");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double middle = median(figures[i]);
      std::printf("  %-22s median %9.3f ms, least %9.3f ms, processor %9.3f ms\n", all[i].name.c_str(),
                  middle, *std::min_element(figures[i].begin(), figures[i].end()), median(processor[i]));
      double& of_its_kind = best[static_cast<int>(all[i].whose)];
      of_its_kind = std::min(of_its_kind, middle);
    }
    const std::int64_t floats = bytes / static_cast<std::int64_t>(sizeof(float));
    for (const MeasuredChoice& choice : choices_) {
      if (choice.floats == floats) std::printf("  auto has measured %s\n", choice.words().c_str());
    }
    std::printf("  the best of ours / the best of Gloo's: %.2f\n", best[0] / best[1]);
    if (!options_.shares) std::printf("  the raw loop / the best of ours: %.2f\n", best[2] / best[0]);
    std::fflush(stdout);
  }

  const Options& options_;
  const std::uint32_t rank_;
  const RingEnds ring_;
  mesh::StopFlag stop_;
  std::shared_ptr<wire::SharedSegment> segment_;  // null: vectors are sent
  std::unique_ptr<mesh::Mesh> mesh_;
  std::shared_ptr<gloo::rendezvous::Context> gloo_;
  std::uint32_t number_ = 0;
  std::vector<MeasuredChoice> choices_;
  std::set<std::string> hopeless_;  // at a smaller size
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string key = argv[i];
    if (key == "--ranks") options.ranks = static_cast<std::uint32_t>(std::atoi(argv[i + 1]));
    if (key == "--memory") options.shares = std::string(argv[i + 1]) == "shared";
    if (key == "--ms") options.ms = std::atof(argv[i + 1]);
    if (key == "--keys" && std::string(argv[i + 1]) == "yes") options.key = new_formation_key();
    if (key == "--without") {
      std::stringstream list(argv[i + 1]);
      for (std::string one; std::getline(list, one, ',');) options.without.insert(one);
    }
    if (key == "--turns") options.turns = std::atoi(argv[i + 1]);
    if (key == "--sizes") {
      options.sizes.clear();
      std::stringstream list(argv[i + 1]);
      for (std::string one; std::getline(list, one, ',');) options.sizes.push_back(std::atoll(one.c_str()));
    }
  }
  return options;
}

int main_of(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::string store = (std::filesystem::temp_directory_path() / "bench_allreduce.XXXXXX").string();
  if (mkdtemp(store.data()) == nullptr) fail("no temporary folder");
  std::vector<std::unique_ptr<mesh::Listening>> listening;
  std::vector<std::string> endpoints;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    auto one = mesh::listen_at("127.0.0.1");
    if (!one.is_ok()) fail(one.status().message());
    endpoints.push_back(one->endpoint);
    listening.push_back(std::make_unique<mesh::Listening>(std::move(one).value()));
  }
  const std::vector<RingEnds> ring = connect_ring(options.ranks);
  if (ring.empty()) fail("no connections on the loopback");
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < options.ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      Rank(options, rank, *listening[rank], endpoints, store, ring[rank]).run();
      std::_Exit(0);
    }
    children.push_back(child);
  }
  bool well = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  std::filesystem::remove_all(store);
  return well ? 0 : 1;
}

}  // namespace
}  // namespace paceline::bench

int main(int argc, char** argv) { return paceline::bench::main_of(argc, argv); }
