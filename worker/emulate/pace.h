// The one place of the worker that may let time pass on purpose: it sleeps out the rest of an emulated
// iteration, and stop() ends every such sleep at once.
#pragma once

#include <condition_variable>
#include <mutex>

#include "common/ticks.h"

namespace paceline {

// Time as an emulated worker sees it. An interface, so that tests need not wait. Thread: any.
class PaceClock {
 public:
  virtual ~PaceClock() = default;
  virtual Ticks now() = 0;
  // Returns at `due`, or as soon as stop() is called.
  virtual void wait_until(Ticks due) = 0;
};

// The steady clock.
class SteadyPaceClock final : public PaceClock {
 public:
  Ticks now() override { return steady_now(); }
  void wait_until(Ticks due) override;
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stopped_ = false;
};

}  // namespace paceline
