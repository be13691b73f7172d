// What a training thread works at by itself, for whoever looks on. A GPU, a loader or a file system that
// hangs is no server's fault, and the thread that waits for it cannot say so: the client's I/O thread tells
// of it, like of any wait that takes long compared with what is usual (common/log/stall_log.h).
//
//   for 31.0 s: worker 0.1 computes the gradient of clock 117 on GPU 1
//
// Thread: working() its training thread, wait() any.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/clock.h"
#include "common/ids.h"
#include "common/log/stall_log.h"
#include "common/ticks.h"

namespace paceline {

class WorkWatch {
 public:
  enum class Work { kBatch, kGradient };

  // `on`: what its gradients are computed on, for people; empty: nothing worth a word.
  WorkWatch(WorkerId worker, std::string on) : worker_(worker), on_(std::move(on)) {}
  WorkWatch(const WorkWatch&) = delete;
  WorkWatch& operator=(const WorkWatch&) = delete;

  // For as long as it lives the thread is at this work, and at nothing else.
  class Span {
   public:
    explicit Span(WorkWatch* watch) : watch_(watch) {}
    ~Span() {
      if (watch_ != nullptr) watch_->end(steady_now());
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    WorkWatch* const watch_;
  };

  void begin(Work work, Clock clock, Ticks now);
  void end(Ticks now);

  // What the thread is at; nullopt: at nothing, or it waits for servers, which others tell of.
  std::optional<Wait> wait() const;

 private:
  struct Running {
    Work work;
    Clock clock;
    Ticks begun;
  };

  const WorkerId worker_;
  const std::string on_;
  mutable std::mutex mutex_;
  std::optional<Running> running_;
  DurationBaseline batches_;
  DurationBaseline gradients_;
};

// Nothing where there is no watch.
[[nodiscard]] inline WorkWatch::Span working(WorkWatch* watch, WorkWatch::Work work, Clock clock) {
  if (watch != nullptr) watch->begin(work, clock, steady_now());
  return WorkWatch::Span(watch);
}

}  // namespace paceline
