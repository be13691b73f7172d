#include "common/wire/sharings.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace paceline::wire {

Sharing* Sharings::with(const PeerId& peer) const {
  const auto found = sharings_.find(peer);
  return found == sharings_.end() ? nullptr : found->second.get();
}

Sharing& Sharings::begin(const PeerId& peer, const std::shared_ptr<SharedSegment>& memory,
                         std::int64_t theirs_bytes_max, const Pin& pin) {
  auto& sharing = sharings_[peer];
  if (sharing != nullptr) return *sharing;
  // Called while its sharing, and so this and the loop, are there.
  auto wake = [&io = io_, weak = weak_from_this(), peer] {
    boost::asio::post(io, [weak, peer] {
      if (const auto self = weak.lock()) self->something_let_go(peer);
    });
  };
  sharing = std::make_unique<Sharing>(memory, theirs_bytes_max, std::move(wake), pin);
  return *sharing;
}

Status Sharings::begin(const PeerId& peer, const std::shared_ptr<SharedSegment>& memory,
                       std::int64_t theirs_bytes_max, const SegmentRef& theirs, const Pin& pin) {
  const Status mapped = begin(peer, memory, theirs_bytes_max, pin).map(theirs);
  if (!mapped.is_ok()) end(peer);
  return mapped;
}

Status Sharings::state(const PeerId& peer) const {
  const Sharing* const sharing = with(peer);
  return sharing != nullptr ? sharing->state() : failed_precondition("no memory is shared with it");
}

void Sharings::unmap(const PeerId& peer) {
  Sharing* const sharing = with(peer);
  if (sharing == nullptr) return;
  if (sharing->maps() || sharing->lent() > 0) return sharing->unmap();
  end(peer);  // it never came to anything
}

void Sharings::close() {
  closed_ = true;
  for (const auto& [peer, sharing] : sharings_) send_released(peer, *sharing);
  sharings_.clear();
  release_timer_.cancel();
}

Result<std::optional<Payload>> Sharings::borrow(const PeerId& from, const Region& region,
                                                Encoding encoding) const {
  Sharing* const sharing = with(from);
  if (sharing == nullptr) return invalid_argument("header.region: got one, expected none unless shared");
  if (encoding != Encoding::kFp32) {
    return invalid_argument("header.region: got one of an encoded payload, expected float32");
  }
  if (sharing->unmapped()) return std::optional<Payload>();
  PACELINE_ASSIGN_OR_RETURN(Payload payload, sharing->borrow(region));
  return std::optional<Payload>(std::move(payload));
}

void Sharings::something_let_go(const PeerId& peer) {
  Sharing* const sharing = with(peer);
  if (sharing == nullptr) return;
  if (sharing->due()) return send_released(peer, *sharing);
  if (std::exchange(let_go_is_timed_, true)) return;
  release_timer_.expires_after(Sharing::kReleaseAfter);
  release_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->closed_) return;
    self->let_go_is_timed_ = false;
    for (const auto& [each, its] : self->sharings_) self->send_released(each, *its);
  });
}

// In a message of its own. Where there is no room for it, it goes with the next one; who is gone is found out
// when a message is sent.
void Sharings::send_released(const PeerId& peer, Sharing& sharing) {
  Beside beside;
  sharing.announce(beside);
  if (beside == Beside{}) return;
  if (!send_(peer, beside)) sharing.retract(beside);
}

}  // namespace paceline::wire
