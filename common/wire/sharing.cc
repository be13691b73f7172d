#include "common/wire/sharing.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline::wire {

// The numbers of what was borrowed and has been dropped, until they are said. Outlives the Sharing, as
// payloads do.
struct Sharing::LetGo {
  explicit LetGo(std::function<void()> w) : wake(std::move(w)) {}

  void add(std::uint64_t number) {
    const std::lock_guard lock(mutex);
    --held;
    if (!wake) return;  // nobody is there to be told
    numbers.push_back(number);
    const bool worth_it = numbers.size() == 1 || numbers.size() % kReleaseBatch == 0 || held == 0;
    if (!worth_it || woken) return;
    woken = true;
    wake();
  }

  std::mutex mutex;
  std::function<void()> wake;
  std::vector<std::uint64_t> numbers;
  std::int64_t held = 0;
  bool woken = false;
};

struct Sharing::Borrowed {
  std::shared_ptr<const MappedSegment> memory;
  std::shared_ptr<LetGo> let_go;
  std::uint64_t number;

  Borrowed(std::shared_ptr<const MappedSegment> m, std::shared_ptr<LetGo> l, std::uint64_t n)
      : memory(std::move(m)), let_go(std::move(l)), number(n) {}
  ~Borrowed() { let_go->add(number); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
};

Sharing::Sharing(std::shared_ptr<SharedSegment> ours, std::int64_t theirs_bytes_max,
                 std::function<void()> wake, Pin pin)
    : ours_(std::move(ours)),
      theirs_bytes_max_(theirs_bytes_max),
      pin_(std::move(pin)),
      let_go_(std::make_shared<LetGo>(std::move(wake))) {}

Sharing::~Sharing() {
  const std::lock_guard lock(let_go_->mutex);
  let_go_->wake = nullptr;
  let_go_->numbers.clear();
}

Status Sharing::map(const SegmentRef& theirs) {
  if (theirs_ != nullptr || unmapped_) return mapped_;
  // Who says our own token back has read it in a message, not in our memory.
  const SegmentRef& ours = ours_->ref();
  if (theirs.token_high == ours.token_high && theirs.token_low == ours.token_low) {
    return mapped_ = unavailable("the peer announces our own memory");
  }
  Result<std::shared_ptr<const MappedSegment>> mapped = MappedSegment::map(theirs, theirs_bytes_max_, pin_);
  mapped_ = mapped.status();
  if (mapped.is_ok()) theirs_ = std::move(mapped).value();
  return mapped_;
}

void Sharing::unmap() {
  theirs_.reset();
  unmapped_ = true;
  mapped_ = failed_precondition("nothing more is read of the peer's memory");
  const std::lock_guard lock(let_go_->mutex);
  let_go_->wake = nullptr;
  let_go_->numbers.clear();
}

Status Sharing::state() const {
  if (!mapped_.is_ok()) return mapped_;
  if (!they_read_) return unavailable("the peer cannot read the memory of this process");
  return Status::ok();
}

void Sharing::announce(Beside& beside) {
  if (!std::exchange(announced_, true)) beside.segment = ours_->ref();
  if (theirs_ != nullptr && !std::exchange(sent_reads_segment_, true)) beside.reads_segment = true;
  const std::lock_guard lock(let_go_->mutex);
  const auto count = std::min<std::size_t>(let_go_->numbers.size(), kLetGoMax);
  const auto first = let_go_->numbers.begin();
  beside.let_go.assign(first, first + static_cast<std::ptrdiff_t>(count));
  let_go_->numbers.erase(first, first + static_cast<std::ptrdiff_t>(count));
}

void Sharing::retract(const Beside& beside) {
  if (beside.segment) announced_ = false;
  if (beside.reads_segment) sent_reads_segment_ = false;
  if (beside.region) lent_.erase(beside.region->number);
  if (unmapped_) return;  // nobody is told any more
  const std::lock_guard lock(let_go_->mutex);
  let_go_->numbers.insert(let_go_->numbers.begin(), beside.let_go.begin(), beside.let_go.end());
}

std::optional<Region> Sharing::lend(const Payload& payload) {
  if (!state().is_ok() || payload.size < kLentBytesMin || payload.encoding != Encoding::kFp32) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> offset = ours_->offset_of(payload.data, payload.size);
  if (!offset) return std::nullopt;
  const std::uint64_t number = next_number_++;
  lent_.emplace(number, payload.owner);
  return Region{number, *offset, static_cast<std::int64_t>(payload.size)};
}

std::shared_ptr<const void> Sharing::keep_lent() const {
  return std::make_shared<const decltype(lent_)>(lent_);
}

Status Sharing::on_receive(const Beside& beside) {
  if (beside.reads_segment && announced_) they_read_ = true;
  for (const std::uint64_t number : beside.let_go) {
    if (lent_.erase(number) == 0) {
      return invalid_argument("header.let_go: got " + std::to_string(number) +
                              ", expected a number that is lent");
    }
  }
  return Status::ok();
}

Result<Payload> Sharing::borrow(const Region& region) {
  PACELINE_ASSERT(!unmapped_, "borrowing from a segment that was unmapped");
  const std::int64_t size = theirs_ == nullptr ? 0 : theirs_->size();
  if (region.offset > size || region.bytes > size - region.offset) {
    return invalid_argument("header.region: got bytes [" + std::to_string(region.offset) + ", " +
                            std::to_string(region.offset + region.bytes) + "), expected them within the " +
                            std::to_string(size) + " bytes of the sender's segment");
  }
  if (!theirs_->has_pages_to(region.offset + region.bytes)) {
    return invalid_argument("header.region: got bytes [" + std::to_string(region.offset) + ", " +
                            std::to_string(region.offset + region.bytes) +
                            "), expected them where the sender has written");
  }
  {
    const std::lock_guard lock(let_go_->mutex);
    ++let_go_->held;
  }
  const std::span<const std::byte> bytes = theirs_->part(region.offset, region.bytes);
  Payload payload{std::make_shared<const Borrowed>(theirs_, let_go_, region.number), bytes.data(),
                  bytes.size()};
  payload.borrowed = true;
  return payload;
}

bool Sharing::due() {
  const std::lock_guard lock(let_go_->mutex);
  let_go_->woken = false;
  return !let_go_->numbers.empty() && (let_go_->held == 0 || let_go_->numbers.size() >= kReleaseBatch);
}

}  // namespace paceline::wire
