// A run whose last breath is drawn from its seed: which node dies, at which clock, and how. Both the test and
// the program that dies (counting_node.cc) draw it, so only the seed travels between them.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/config/run_config.h"
#include "tests/process/backup_run.h"
#include "tests/process/counting_task.h"

namespace paceline::testing {

enum class Death {
  kComputing,      // SIGKILL from within Task::compute
  kAroundPush,     // SIGKILL some microseconds after computing began: before, while or after pushing
  kStandingStill,  // SIGSTOP at such a moment: the connection stays, the silence tells
};

struct CrashRun {
  RunConfig config;  // without endpoints
  NodeId victim;
  Death death = Death::kComputing;
  Clock clock;  // of the victim's first thread
  std::chrono::microseconds after{0};
  std::int64_t blocks = 3;     // rows of the counting model
  std::int64_t per_clock = 0;  // gradients that a mean is made of
};

// Who dies, how and when.
inline void draw_death(CounterRandom& random, CrashRun& run) {
  run.victim = NodeId(static_cast<std::uint32_t>(random.next_below(run.config.cluster.nodes)));
  const std::uint64_t deaths = random.next_below(8);
  run.death = deaths < 2 ? Death::kComputing : deaths < 7 ? Death::kAroundPush : Death::kStandingStill;
  run.clock = Clock(static_cast<std::int64_t>(random.next_below(3)));
  run.after = std::chrono::microseconds(random.next_below(run.blocks > 3 ? 3000 : 400));
}

inline CrashRun crash_run(std::uint64_t seed) {
  CounterRandom random(seed, Stream::kTest, 50);
  CrashRun run;
  run.config = random_run(seed);
  run.config.cluster.nodes = 2 + static_cast<std::uint32_t>(random.next_below(2));
  run.config.cluster.heartbeat = std::chrono::milliseconds(50);
  scale_stages(run.config);
  const auto workers = static_cast<std::uint64_t>(run.config.cluster.cluster().workers());
  run.config.train.total_iterations =
      static_cast<std::int64_t>(workers * (3 + random.next_below(10))) * run.config.train.local_steps;
  // Many frames, so that there is a while in which a push is on its way in part; or a large vector, perhaps
  // in memory that the victim and the others share.
  const std::uint64_t kind = random.next_below(4);
  if (kind < 2) {
    run.config.cluster.frame_bytes = 4;
    run.blocks = 40;
  } else if (kind == 2) {
    run.blocks = random_rows(seed, run.config);
  } else {
    run.config.cluster.frame_bytes = 2048;
    share_some_memory(seed, run.config);
    run.blocks = large_rows(run.config);
  }
  run.per_clock = static_cast<std::int64_t>(workers);
  draw_death(random, run);
  if (run.death == Death::kStandingStill) run.config.cluster.lease = kStandingLease;
  return run;
}

// Under backup workers, and nobody dies.
inline CrashRun whole_backup_run(std::uint64_t seed, std::uint32_t nodes_min = 1) {
  BackupRun backup = backup_run(seed, nodes_min);
  CrashRun run;
  run.config = std::move(backup.config);
  run.blocks = backup.rows;
  run.per_clock = backup.n;
  return run;
}

// The same, and a node is killed.
inline CrashRun backup_crash_run(std::uint64_t seed) {
  CrashRun run = whole_backup_run(seed, /*nodes_min=*/2);
  run.config.cluster.heartbeat = std::chrono::milliseconds(50);
  CounterRandom random(seed, Stream::kTest, 81);
  draw_death(random, run);
  if (run.death == Death::kStandingStill) run.death = Death::kAroundPush;
  return run;
}

inline CountingOptions counting_options(const CrashRun& run, std::uint64_t seed) {
  CountingOptions options;
  options.cluster = run.config.cluster.cluster();
  options.blocks = run.blocks;
  options.seed = seed;
  options.in_parts = pushed_in_parts(seed);
  options.local_steps = run.config.train.local_steps;
  options.gradient_scale = gradient_scale(run.config.sync, run.per_clock);
  return options;
}

// What is known of a node after its death: how many steps each of its workers has begun and computed, and
// that it is dying. A file that both processes map.
class LastWords {
 public:
  explicit LastWords(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    PACELINE_ASSERT(file >= 0 && ::ftruncate(file, sizeof(Words)) == 0, "cannot make " + path);
    void* const memory = ::mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    PACELINE_ASSERT(memory != MAP_FAILED, "cannot map " + path);
    ::close(file);
    words_ = static_cast<Words*>(memory);  // a fresh file is zero: so are the atomics
  }
  ~LastWords() { ::munmap(words_, sizeof(Words)); }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  std::int64_t begun(Rank rank) const { return words_->begun[rank.value]; }
  void begin_step(Rank rank) { words_->begun[rank.value].fetch_add(1); }
  std::int64_t computed(Rank rank) const { return words_->computed[rank.value]; }
  void end_compute(Rank rank) { words_->computed[rank.value].fetch_add(1); }
  // Said just before: the kernel closes a killed process's connections before anybody can see it dead.
  bool dying() const { return words_->dying; }
  void note_dying() { words_->dying = true; }

 private:
  struct Words {
    std::atomic<bool> dying;
    std::atomic<std::int64_t> begun[64];
    std::atomic<std::int64_t> computed[64];
  };
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  Words* words_ = nullptr;
};

}  // namespace paceline::testing
