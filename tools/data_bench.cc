#include "tools/data_bench.h"

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <thread>

#include "common/config/command_line.h"
#include "common/config/load.h"
#include "tools/number_option.h"
#include "worker/data/loader.h"
#include "worker/images/image_samples.h"
#include "worker/run_data.h"

namespace paceline {
namespace {

using Timer = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Part {
  const char* name;
  double seconds;  // of all samples
};

double rate(std::int64_t samples, double seconds) {
  return seconds > 0 ? static_cast<double>(samples) / seconds : 0;
}

// One thread, from the beginning of the run on.
Result<ImageSamples::Times> one_thread(const ImageSamples& samples, std::uint64_t seed, double seconds) {
  const Sampler sampler(samples.size(), seed);
  std::vector<float> image(static_cast<std::size_t>(samples.floats()));
  const auto until = Timer::now() + Seconds(seconds);
  std::int64_t position = 0;
  do {
    PACELINE_RETURN_IF_ERROR(samples.train(sampler.at(position++), image).status());
  } while (Timer::now() < until);
  return samples.times();
}

// Of all threads of the process.
Seconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

struct Rates {
  double of_time = 0;            // pictures a second
  double of_processor_time = 0;  // a second of it, on whatever cores: for a machine that is busy
  double share_of_steps = 0;     // of the time, which no mini-batch was waited for in
};

// Mini-batches one after another, as fast as they come and are taken.
Result<Rates> loaded(const RunData& data, const RunConfig& config, const DataBenchOptions& options) {
  const std::int64_t n = config.train.batch_size;
  Loader loader(data.maker(),
                {.threads = config.data.loader_threads, .prefetch = config.data.prefetch_batches});
  BatchQueue queue = loader.open({{0, n}, n});
  PACELINE_RETURN_IF_ERROR(queue.next({0, n}).status());  // which threads are begun for
  const auto begun = Timer::now();
  const Seconds used = processor_time();
  std::int64_t batches = 1;
  double in_steps = 0;
  do {
    PACELINE_RETURN_IF_ERROR(queue.next({batches * n, n}).status());
    ++batches;
    const auto had = Timer::now();
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(options.step_ms));
    in_steps += Seconds(Timer::now() - had).count();
  } while (Seconds(Timer::now() - begun).count() < options.seconds);
  const double elapsed = Seconds(Timer::now() - begun).count();
  const std::int64_t samples = (batches - 1) * n;
  return Rates{rate(samples, elapsed), rate(samples, (processor_time() - used).count()), in_steps / elapsed};
}

void print(const std::vector<Part>& parts, std::int64_t samples, std::ostream& out) {
  double all = 0;
  for (const Part& part : parts) all += part.seconds;
  out << "  part        images/s  share\n  ---------------------------\n"
      << std::fixed << std::setprecision(0);
  const auto line = [&](const char* name, double seconds) {
    out << "  " << std::left << std::setw(10) << name << std::right << std::setw(10) << rate(samples, seconds)
        << std::setw(5) << 100 * seconds / all << " %\n";
  };
  for (const Part& part : parts) line(part.name, part.seconds);
  line("all", all);
}

}  // namespace

int data_bench(const DataBenchOptions& options, std::ostream& out, std::ostream& err) {
  const auto failed = [&](const Status& status, int exit_status) {
    err << "paceline data bench: " << status.message() << "\n";
    return exit_status;
  };
  const Result<RunConfig> config = load_config(options.path, options.overrides);
  if (!config) return failed(config.status(), kExitUsage);
  if (config->data.kind != DataKind::kImages) {
    return failed(invalid_argument("data.kind: not images, whose samples are in memory, expected images"),
                  kExitUsage);
  }
  Result<RunData> data = RunData::open(*config, RunFolder::kAsItIs);
  if (!data.is_ok()) return failed(data.status(), kExitUsage);
  data->warn_to([&](const std::string& warning) { err << "paceline data bench: " << warning << "\n"; });
  const auto& samples = dynamic_cast<const ImageSamples&>(*data->train());
  const ImageList& list = *samples.list();
  out << list.folder().string() << ": " << list.size() << " pictures of "
      << list.bytes_of_all() / list.size() / 1024 << " KiB on average\n";

  const Result<ImageSamples::Times> times = one_thread(samples, config->run.seed, options.seconds);
  if (!times) return failed(times.status(), kExitFailedRun);
  const auto seconds = [](std::chrono::nanoseconds time) { return Seconds(time).count(); };
  const std::vector<Part> parts = {{"read", seconds(times->read)},
                                   {"decode", seconds(times->render.decode)},
                                   {"resize", seconds(times->render.resize)},
                                   {"normalize", seconds(times->render.normalize)}};
  out << "one thread:\n";
  print(parts, times->samples, out);
  const Result<Rates> all = loaded(*data, *config, options);
  if (!all) return failed(all.status(), kExitFailedRun);
  const std::uint32_t threads = config->data.loader_threads;
  out << "loader, " << threads << (threads == 1 ? " thread, " : " threads, ") << config->data.prefetch_batches
      << " mini-batches of " << config->train.batch_size << " ahead: " << all->of_time << " images/s, "
      << all->of_processor_time << " a second of processor time\n";
  constexpr double kTrainingHoldsBack = 0.9;  // of the time
  if (options.step_ms > 0 && all->share_of_steps >= kTrainingHoldsBack) {
    out << "holds back: the training step, of " << options.step_ms << " ms\n";
    return kExitOk;
  }
  const auto slowest = std::max_element(parts.begin(), parts.end(),
                                        [](const Part& a, const Part& b) { return a.seconds < b.seconds; });
  out << "holds back: " << slowest->name << "\n";
  return kExitOk;
}

void add_data_bench(CLI::App& data, int& exit_status) {
  CLI::App* command =
      data.add_subcommand("bench", "Images a second of each part of the data's path (kind: images)");
  const auto options = std::make_shared<DataBenchOptions>();
  command->add_option("CONFIG", options->path, "The configuration")->required();
  command->add_option("SETTING", options->overrides, "key.path=value: overrides, as the daemons take them");
  command->add_option("--seconds", options->seconds, "For each of the two measurements")
      ->check(number_option([](double x) { return x >= 0.1 && x <= 3600.0; }, "0.1 to 3600"))
      ->capture_default_str();
  command
      ->add_option("--step-ms", options->step_ms,
                   "A pause after each mini-batch, as a step on a GPU makes it")
      ->check(number_option([](double x) { return x >= 0.0 && x <= 1e6; }, "0 to 1000000"))
      ->capture_default_str();
  command->callback([options, &exit_status] { exit_status = data_bench(*options, std::cout, std::cerr); });
}

}  // namespace paceline
