// A norm group in one process (norm_group.h): its members are threads that meet at each layer and pass. `paceline
// simulate` computes a group's step so: whoever comes waits for the others, and all go on with what all have said, in
// the order of members, as over channels between nodes (peer_norm_group.h). So the bits are those of such nodes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "worker/model/norm_group.h"

namespace paceline {

// Thread: any.
class NormMeeting {
 public:
  explicit NormMeeting(std::uint32_t members);
  ~NormMeeting();
  NormMeeting(const NormMeeting&) = delete;
  NormMeeting& operator=(const NormMeeting&) = delete;

  // What member `number` computes with; its exchange() is called by one thread at a time. Lives as long as the meeting.
  NormGroup& member(std::uint32_t number);
  // A member comes no more: nobody waits from now on, and status() of all is `why` (not OK). The first end counts.
  void end(const Status& why);
  // OK, or why it has ended.
  Status status() const;

 private:
  class Member;
  std::vector<NormPart> exchange(std::size_t number, std::size_t layer, NormPass pass, NormPart own);

  std::vector<std::unique_ptr<Member>> members_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<NormPart> parts_;  // by member, at the meeting under way
  std::uint32_t here_ = 0;       // so many of them
  std::vector<NormPart>
      all_;                // what was said at the last one, which nobody has left behind before it has this
  std::int64_t met_ = 0;   // so many times
  std::size_t layer_ = 0;  // where the first of them is
  NormPass pass_ = NormPass::kForward;
  Status status_;
};

}  // namespace paceline
