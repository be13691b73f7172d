// How pieces become gradients: checked against the worker's own sequence, appended, and given back when
// applied.
#include "server/store/gradient_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/config/names.h"
#include "common/encode/encode.h"

namespace paceline::server {
namespace {

// Lists grow beyond it when they must.
constexpr std::size_t kGradientsExpected = 16;
// What pieces as Encoding::kZero are: -0 says that there is no gradient, and adds nothing to one
// (common/params/layout.h, may_be_unused).
constexpr float kNoGradient = -0.0F;

std::string describe(const wire::Push& push) {
  return "push from worker " + to_string(push.worker) + " stamped " + to_string(push.clock);
}

std::string range_of(std::int64_t begin, std::int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

wire::Payload in_our_memory(wire::Payload payload) {
  const std::shared_ptr<std::byte[]> copy(new std::byte[payload.size]);
  std::copy_n(payload.data, payload.size, copy.get());
  payload.owner = copy;
  payload.data = copy.get();
  payload.borrowed = false;
  return payload;
}

}  // namespace

GradientStore::GradientStore(Cluster cluster, std::int64_t size, std::size_t gradients_max,
                             std::size_t pieces_max, Encoding encoding)
    : cluster_(cluster),
      size_(size),
      gradients_max_(gradients_max),
      pieces_max_(pieces_max),
      encoding_(encoding),
      // Idle are only blocks that were in use, so what is held for reuse never adds to the most there was.
      decoded_(std::max<std::int64_t>(1, size),
               cluster.workers() * std::min(gradients_max, kGradientsExpected)),
      inboxes_(cluster.workers()) {
  PACELINE_ASSERT(gradients_max >= 2 && pieces_max >= 1, "a store without room");
  // The bound follows sync.threshold, which may be huge; what is used is a few.
  const std::size_t expected = std::min(gradients_max, kGradientsExpected);
  for (Inbox& box : inboxes_) box.gradients.reserve(expected);
  recycled_.reserve(cluster.workers() * expected);
}

Status GradientStore::check(const wire::Push& push, const wire::Payload& payload) const {
  if (!cluster_.contains(push.worker)) {
    return invalid_argument(describe(push) + ": expected a node below " + std::to_string(cluster_.nodes) +
                            " and a thread below " + std::to_string(cluster_.threads_per_node));
  }
  if (push.last ? push.samples <= 0 : push.samples != 0) {
    return invalid_argument(describe(push) + ": " + std::to_string(push.samples) + " samples, expected " +
                            (push.last ? "at least 1" : "none before its last piece"));
  }
  const Inbox& box = inbox(push.worker);
  const Clock expected = box.partial ? box.gradients.back().clock() : box.next;
  if (push.clock < expected) {
    return out_of_order(describe(push) + ": it is here already, expected at least " + to_string(expected));
  }
  if (box.partial && push.clock != expected) {
    return failed_precondition(describe(push) + ": expected the rest of " + to_string(expected));
  }
  // Of an empty range, too: what is kept is taken for what this store decodes.
  if (payload.encoding != encoding_ && payload.encoding != Encoding::kZero) {
    return invalid_argument(describe(push) + ": its floats come as " + name_of(payload.encoding) +
                            ", expected " + name_of(encoding_));
  }
  const std::int64_t floats = payload.count();
  const std::int64_t end = push.offset + floats;
  if (!fits(payload.encoding, floats, payload.size) || push.offset < 0 || end > size_ ||
      push.last != (push.offset == 0)) {
    return invalid_argument(describe(push) + ": floats " + range_of(push.offset, end) + " in " +
                            std::to_string(payload.size) + " bytes" +
                            (push.last ? " as the last piece" : "") + ", expected some of " +
                            range_of(0, size_) + ", the last ones from 0");
  }
  const std::int64_t begin = box.partial ? box.gradients.back().begin_ : size_;
  if (end != begin) {
    const std::string what = describe(push) + ": floats " + range_of(push.offset, end) +
                             ", expected some that end at " + std::to_string(begin);
    return end > begin ? out_of_order(what) : failed_precondition(what);
  }
  if (floats == 0 && size_ != 0) return invalid_argument(describe(push) + ": an empty piece");
  if (!box.partial && box.gradients.size() >= gradients_max_) {
    return resource_exhausted(describe(push) + ": " + std::to_string(box.gradients.size()) +
                              " gradients of this worker are held already");
  }
  if (box.partial && box.gradients.back().pieces_.size() >= pieces_max_) {
    return resource_exhausted(describe(push) + ": more than " + std::to_string(pieces_max_) + " pieces");
  }
  return Status::ok();
}

Result<Gradient*> GradientStore::add(const wire::Push& push, wire::Payload payload) {
  PACELINE_RETURN_IF_ERROR(check(push, payload));
  if (payload.encoding == Encoding::kZero && encoding_ == Encoding::kFp32) payload = zeros(payload.count());
  Inbox& box = inbox(push.worker);
  BlockRef fresh;
  float* into = nullptr;
  if (encoding_ != Encoding::kFp32) {
    if (!box.partial) fresh = decoded_.acquire();
    into = box.partial ? box.gradients.back().decoded_floats_ : fresh.writable_data();
    PACELINE_ASSIGN_OR_RETURN(payload, decoded(push, payload, into));
  }
  if (!box.partial) {
    if (recycled_.empty()) recycled_.emplace_back();
    box.gradients.push_back(std::move(recycled_.back()));
    recycled_.pop_back();
    Gradient& begun = box.gradients.back();
    begun.worker_ = push.worker;
    begun.clock_ = push.clock;
    begun.computed_version_ = push.computed_version;
    begun.updates_known_ = push.computed_revision.value + push.own_updates;
    begun.computed_revision_ = push.computed_revision;
    begun.begin_ = size_;
    begun.decoded_ = std::move(fresh);
    begun.decoded_floats_ = into;
    box.partial = true;
  }
  Gradient& gradient = box.gradients.back();
  gradient.samples_ = push.samples;
  gradient.begin_ = push.offset;
  gradient.pieces_.push_back({push.offset, std::move(payload)});
  if (encoding_ != Encoding::kFp32)
    gradient.check_finite(gradient.piece_count() - 1);  // it is in the cache now
  if (!push.last) {
    if (encoding_ == Encoding::kFp32) to_be_checked(push.worker);
    return static_cast<Gradient*>(nullptr);
  }
  box.partial = false;
  box.next = push.clock.next();
  return &gradient;
}

// One memory for all, of the largest piece so far. Those before live on where they are referred to.
wire::Payload GradientStore::zeros(std::int64_t floats) {
  if (zero_floats_ < floats) {
    zeros_ = std::make_shared<float[]>(static_cast<std::size_t>(floats), kNoGradient);
    zero_floats_ = floats;
  }
  return {zeros_, reinterpret_cast<const std::byte*>(zeros_.get()),
          static_cast<std::size_t>(floats) * sizeof(float)};
}

// The piece's place in its gradient's block is nobody else's.
Result<wire::Payload> GradientStore::decoded(const wire::Push& push, const wire::Payload& payload,
                                             float* into) {
  const std::span<float> floats(into + push.offset, static_cast<std::size_t>(payload.count()));
  if (payload.encoding == Encoding::kZero) {
    std::fill(floats.begin(), floats.end(), kNoGradient);
  } else {
    PACELINE_RETURN_IF_ERROR(decode(payload.encoding, payload.bytes(), floats).with_context(describe(push)));
  }
  return wire::Payload{nullptr, reinterpret_cast<const std::byte*>(floats.data()), floats.size_bytes()};
}

bool GradientStore::was_computed_with(WorkerId worker, Revision revision) const {
  const std::vector<Gradient>& held = inbox(worker).gradients;
  return std::any_of(held.begin(), held.end(),
                     [revision](const Gradient& g) { return g.computed_revision() == revision; });
}

const Gradient* GradientStore::find(WorkerId worker, Clock clock) const {
  if (!cluster_.contains(worker)) return nullptr;
  const Inbox& box = inbox(worker);
  const std::size_t whole = box.gradients.size() - (box.partial ? 1 : 0);
  for (std::size_t i = 0; i < whole; ++i) {
    if (box.gradients[i].clock() == clock) return &box.gradients[i];
  }
  return nullptr;
}

Gradient* GradientStore::begun(WorkerId worker, Clock clock) {
  return const_cast<Gradient*>(std::as_const(*this).begun(worker, clock));
}

const Gradient* GradientStore::begun(WorkerId worker, Clock clock) const {
  if (!cluster_.contains(worker)) return nullptr;
  for (const Gradient& gradient : inbox(worker).gradients) {
    if (gradient.clock() == clock) return &gradient;
  }
  return nullptr;
}

bool GradientStore::is_full(WorkerId worker, Clock clock, std::size_t more) const {
  const std::vector<Gradient>& held = inbox(worker).gradients;
  const auto up_to =
      std::count_if(held.begin(), held.end(), [&](const Gradient& g) { return g.clock() <= clock; });
  return static_cast<std::size_t>(up_to) + more > gradients_max_;
}

void GradientStore::to_be_checked(WorkerId worker) {
  if (std::exchange(inbox(worker).listed, true)) return;
  to_check_.push_back(cluster_.rank_of(worker).value);
}

bool GradientStore::check_one_finite() {
  for (; !to_check_.empty(); to_check_.pop_front()) {
    Inbox& box = inboxes_[to_check_.front()];
    if (box.partial) {
      Gradient& gradient = box.gradients.back();
      if (const std::int64_t piece = gradient.first_unchecked(); piece < gradient.piece_count()) {
        gradient.check_finite(piece);
        return true;
      }
    }
    box.listed = false;
  }
  return false;
}

bool GradientStore::discard(WorkerId worker, Clock clock) {
  if (!cluster_.contains(worker)) return false;
  const Gradient* found = find(worker, clock);
  if (found == nullptr) {
    Clock& late_below = inbox(worker).late_below;
    late_below = std::max(late_below, clock.next());
    return false;
  }
  std::vector<Gradient>& gradients = inbox(worker).gradients;
  const auto place = gradients.begin() + (found - gradients.data());
  recycle(std::move(*place));
  gradients.erase(place);
  return true;
}

Status GradientStore::withdraw(const wire::Withdraw& withdraw) {
  const std::string what =
      "withdrawal by worker " + to_string(withdraw.worker) + " of clock " + to_string(withdraw.clock);
  if (!cluster_.contains(withdraw.worker)) return invalid_argument(what + ": there is no such worker");
  Inbox& box = inbox(withdraw.worker);
  if (!box.partial || box.gradients.back().clock() != withdraw.clock) {
    return out_of_order(what + ": nothing of that gradient is here in part");
  }
  drop_partial(box);
  box.next = withdraw.clock.next();
  return Status::ok();
}

void GradientStore::drop_partial(NodeId node) {
  for (std::uint32_t thread = 0; node.value < cluster_.nodes && thread < cluster_.threads_per_node;
       ++thread) {
    Inbox& box = inbox(WorkerId(node, thread));
    if (box.partial) drop_partial(box);
  }
}

void GradientStore::copy_borrowed(NodeId node) {
  for (std::uint32_t thread = 0; node.value < cluster_.nodes && thread < cluster_.threads_per_node;
       ++thread) {
    for (Gradient& gradient : inbox(WorkerId(node, thread)).gradients) {
      for (Gradient::Piece& piece : gradient.pieces_) {
        if (piece.payload.borrowed) piece.payload = in_our_memory(std::move(piece.payload));
      }
    }
  }
}

void GradientStore::drop_partial(Inbox& box) {
  recycle(std::move(box.gradients.back()));
  box.gradients.pop_back();
  box.partial = false;
}

void GradientStore::recycle(Gradient gradient) {
  gradient.pieces_.clear();  // the buffers go now, the list's memory stays
  gradient.decoded_.reset();
  gradient.all_checked_ = 0;
  recycled_.push_back(std::move(gradient));
}

std::size_t GradientStore::held() const {
  std::size_t held = 0;
  for (const Inbox& box : inboxes_) held += box.gradients.size();
  return held;
}

}  // namespace paceline::server
