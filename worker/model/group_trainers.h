// Trainers of a norm group in training mode: one for each member, on a thread of its own, since members wait for each
// other in the middle of a step (worker/model/norm_meeting.h). As with one trainer for all workers, these stand for the
// members of every group: groups compute one after another.
//
//   the simulator's   run(step) ---------------------- all done --> goes on
//   member 0              step(0, task) ..norm..norm..
//   member 1              step(1, task) ..norm..norm..
//
// Between the calls of run() the threads sleep.
#pragma once

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "common/status.h"
#include "common/task/task.h"

namespace paceline {

// Thread: the one that made it.
class GroupTrainers {
 public:
  // Called on the member's thread, whose task it makes.
  using Make = std::function<Result<std::unique_ptr<Task>>(std::uint32_t member)>;
  // Errors: those of `make`, of the lowest member.
  static Result<std::unique_ptr<GroupTrainers>> begin(std::uint32_t members, const Make& make);
  // The tasks end on their threads.
  ~GroupTrainers();
  GroupTrainers(const GroupTrainers&) = delete;
  GroupTrainers& operator=(const GroupTrainers&) = delete;

  // Calls `step` for all members at once, each on its thread; returns when all have returned.
  using Step = std::function<void(std::uint32_t member, Task& task)>;
  void run(const Step& step);

 private:
  explicit GroupTrainers(std::uint32_t members) : turn_(static_cast<std::ptrdiff_t>(members) + 1) {}
  void work(std::uint32_t member, const Make& make, Status& made);

  std::barrier<> turn_;         // a run begins, or is over
  const Step* step_ = nullptr;  // null at a begin: that is all
  std::vector<std::thread> threads_;
};

}  // namespace paceline
