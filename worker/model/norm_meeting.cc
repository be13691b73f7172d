#include "worker/model/norm_meeting.h"

#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline {

class NormMeeting::Member final : public NormGroup {
 public:
  Member(NormMeeting& meeting, std::size_t number) : meeting_(meeting), number_(number) {}
  std::vector<NormPart> exchange(std::size_t layer, NormPass pass, NormPart own) override {
    return meeting_.exchange(number_, layer, pass, std::move(own));
  }
  Status status() const override { return meeting_.status(); }

 private:
  NormMeeting& meeting_;
  const std::size_t number_;
};

NormMeeting::NormMeeting(std::uint32_t members) : parts_(members) {
  for (std::size_t number = 0; number < members; ++number)
    members_.push_back(std::make_unique<Member>(*this, number));
}

NormMeeting::~NormMeeting() = default;

NormGroup& NormMeeting::member(std::uint32_t number) { return *members_.at(number); }

void NormMeeting::end(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (status_.is_ok()) status_ = why;
  changed_.notify_all();
}

Status NormMeeting::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

std::vector<NormPart> NormMeeting::exchange(std::size_t number, std::size_t layer, NormPass pass,
                                            NormPart own) {
  std::unique_lock lock(mutex_);
  if (!status_.is_ok()) return {std::move(own)};
  if (here_ == 0) {
    layer_ = layer;
    pass_ = pass;
  }
  PACELINE_ASSERT(layer == layer_ && pass == pass_, "member " + std::to_string(number) + " is at layer " +
                                                        std::to_string(layer) + ", expected " +
                                                        std::to_string(layer_));
  parts_[number] = std::move(own);
  const std::int64_t before = met_;
  if (++here_ == members_.size()) {
    all_ = parts_;
    here_ = 0;
    ++met_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return met_ != before || !status_.is_ok(); });
  if (met_ == before) return {parts_[number]};
  return all_;
}

}  // namespace paceline
