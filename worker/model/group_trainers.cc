#include "worker/model/group_trainers.h"

namespace paceline {

Result<std::unique_ptr<GroupTrainers>> GroupTrainers::begin(std::uint32_t members, const Make& make) {
  std::unique_ptr<GroupTrainers> all(new GroupTrainers(members));
  std::vector<Status> made(members);
  for (std::uint32_t member = 0; member < members; ++member) {
    all->threads_.emplace_back(
        [&all = *all, member, &make, &status = made[member]] { all.work(member, make, status); });
  }
  all->turn_.arrive_and_wait();  // all are made, or not
  for (const Status& status : made) PACELINE_RETURN_IF_ERROR(status);
  return all;
}

GroupTrainers::~GroupTrainers() {
  step_ = nullptr;
  turn_.arrive_and_wait();
  for (std::thread& thread : threads_) thread.join();
}

void GroupTrainers::run(const Step& step) {
  step_ = &step;
  turn_.arrive_and_wait();
  turn_.arrive_and_wait();
}

void GroupTrainers::work(std::uint32_t member, const Make& make, Status& made) {
  Result<std::unique_ptr<Task>> task = make(member);
  made = task.status();
  turn_.arrive_and_wait();  // after which `made` is gone
  for (;;) {
    turn_.arrive_and_wait();
    if (step_ == nullptr) return;
    (*step_)(member, **task);
    turn_.arrive_and_wait();
  }
}

}  // namespace paceline
