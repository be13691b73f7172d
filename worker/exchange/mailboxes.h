// One mailbox per training thread: whoever hears of grants, or decides them, puts them in, the training thread
// waits for them.
//
// Thread: any. close() releases every waiter and is final.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "common/status.h"
#include "worker/exchange/coordinator.h"

namespace paceline {

class Mailboxes {
 public:
  // A grant may still lie there when the news that nothing follows arrives, or a grant ahead (exchange.hidden).
  static constexpr std::size_t kInstructionsMax = 2;

  explicit Mailboxes(std::uint32_t threads) : boxes_(threads) {}

  // Errors: kInvalidArgument no such thread; kResourceExhausted when instructions arrive faster than
  // iterations end.
  Status put(std::uint32_t thread, Instruction instruction);

  // Why the next one does not come; until it does. Errors: kInvalidArgument no such thread.
  Status hold(std::uint32_t thread, const GrantHold& why);
  std::optional<GrantHold> held(std::uint32_t thread) const;

  // Waits for the next instruction. After close(): its status, at once.
  Result<Instruction> take(std::uint32_t thread);

  // Whether take() would not wait.
  bool has_come(std::uint32_t thread) const;
  // Whether what `thread` will take next is here, and is Finished.
  bool finished(std::uint32_t thread) const;

  // Forgets what nobody has taken.
  void clear();
  // `why` is not OK. The first close counts.
  void close(Status why);

 private:
  struct Box {
    std::deque<Instruction> instructions;
    std::condition_variable arrived;
    std::optional<GrantHold> held;
  };
  mutable std::mutex mutex_;
  std::deque<Box> boxes_;  // a deque: a condition variable does not move
  Status closed_;
};

}  // namespace paceline
