#include "worker/exchange/mailboxes.h"

#include <string>
#include <utility>
#include <variant>

namespace paceline {

Status Mailboxes::put(std::uint32_t thread, Instruction instruction) {
  std::unique_lock lock(mutex_);
  if (thread >= boxes_.size()) {
    return invalid_argument("an instruction for thread " + std::to_string(thread) + " of a node with " +
                            std::to_string(boxes_.size()));
  }
  Box& box = boxes_[thread];
  if (box.instructions.size() >= kInstructionsMax) {
    return resource_exhausted("thread " + std::to_string(thread) + " has " +
                              std::to_string(box.instructions.size()) + " instructions unread");
  }
  box.held.reset();
  box.instructions.push_back(std::move(instruction));
  lock.unlock();
  box.arrived.notify_one();  // who wakes need not wait for this lock first
  return Status::ok();
}

Status Mailboxes::hold(std::uint32_t thread, const GrantHold& why) {
  const std::lock_guard lock(mutex_);
  if (thread >= boxes_.size()) {
    return invalid_argument("thread " + std::to_string(thread) + " of a node with " +
                            std::to_string(boxes_.size()) + " is held");
  }
  boxes_[thread].held = why;
  return Status::ok();
}

std::optional<GrantHold> Mailboxes::held(std::uint32_t thread) const {
  const std::lock_guard lock(mutex_);
  return boxes_.at(thread).held;
}

Result<Instruction> Mailboxes::take(std::uint32_t thread) {
  std::unique_lock lock(mutex_);
  Box& box = boxes_.at(thread);
  box.arrived.wait(lock, [&] { return !closed_.is_ok() || !box.instructions.empty(); });
  if (!closed_.is_ok()) return closed_;
  Result<Instruction> next(std::move(box.instructions.front()));
  box.instructions.pop_front();
  return next;
}

bool Mailboxes::has_come(std::uint32_t thread) const {
  const std::lock_guard lock(mutex_);
  return !closed_.is_ok() || !boxes_.at(thread).instructions.empty();
}

bool Mailboxes::finished(std::uint32_t thread) const {
  std::lock_guard lock(mutex_);
  const auto& instructions = boxes_.at(thread).instructions;
  return !instructions.empty() && std::holds_alternative<Finished>(instructions.front());
}

void Mailboxes::clear() {
  std::lock_guard lock(mutex_);
  for (Box& box : boxes_) {
    box.instructions.clear();
    box.held.reset();
  }
}

void Mailboxes::close(Status why) {
  std::lock_guard lock(mutex_);
  if (!closed_.is_ok()) return;
  closed_ = std::move(why);
  for (Box& box : boxes_) box.arrived.notify_all();
}

}  // namespace paceline
