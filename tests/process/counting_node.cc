// counting_node KIND SEED LAST-WORDS-FILE ENDPOINT...: the node of crash_run(SEED) that dies, as a process of
// its own; under KIND `backup` that of backup_crash_run(SEED), under `join` of join_run(SEED). It takes part
// in the run with the counting model until its moment comes. Exits 0 when the run was over before that.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

#include "common/wire/transport.h"
#include "tests/process/counting_task.h"
#include "tests/process/crash_run.h"
#include "tests/process/join_run.h"
#include "worker/node.h"

namespace paceline::testing {
namespace {

int run_until_death(const std::string& kind, std::uint64_t seed, const std::string& words_file,
                    const std::vector<std::string>& endpoints) {
  CrashRun run = kind == "backup" ? backup_crash_run(seed)
                 : kind == "join" ? join_run(seed)
                                  : crash_run(seed);
  run.config.cluster.endpoints = endpoints;
  LastWords words(words_file);

  CountingOptions options = counting_options(run, seed);
  options.before_compute = [&](const Step& step) {
    if (step.local_step == 0) words.begin_step(options.cluster.rank_of(step.worker));
    // With local steps in the middle of a round.
    const bool its_moment = step.clock == run.clock && step.local_step == options.local_steps / 2;
    if (step.worker.thread != 0 || !its_moment) return Status::ok();
    const auto die = [&words, how = run.death == Death::kStandingStill ? SIGSTOP : SIGKILL] {
      words.note_dying();
      std::raise(how);
    };
    if (run.death == Death::kComputing) die();
    std::thread([die, after = run.after] {
      spin_for(after);
      die();
    }).detach();
    return Status::ok();
  };
  options.after_compute = [&](const Step& step) {
    if (step.local_step + 1 == options.local_steps) words.end_compute(options.cluster.rank_of(step.worker));
  };

  wire::Context context;
  Node node(run.config, run.victim, context, std::make_unique<CountingFactory>(options));
  const Status ended = node.run();
  if (!ended.is_ok()) std::fprintf(stderr, "counting_node: %s\n", ended.message().c_str());
  return ended.is_ok() ? 0 : 1;
}

}  // namespace
}  // namespace paceline::testing

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  return paceline::testing::run_until_death(argv[1], std::strtoull(argv[2], nullptr, 10), argv[3],
                                            {argv + 4, argv + argc});
}
