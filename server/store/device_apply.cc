#include "server/store/device_apply.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/assert.h"

namespace paceline::server {
namespace {

// The place of what a decision takes and was not sent ahead.
constexpr std::size_t kInTurn = 0;

std::size_t count_of(std::int64_t size, std::int64_t block_floats) {
  return static_cast<std::size_t>((size + block_floats - 1) / block_floats);
}

}  // namespace

DeviceApply::DeviceApply(const ShardSettings& settings, std::int64_t size, const BlockPool& pool)
    : optimizer_(settings.optimizer),
      size_(size),
      pool_(pool),
      state_pool_(settings.block_floats, 2 * count_of(size, settings.block_floats),
                  settings.device->page_locked(nullptr)) {
  PACELINE_ASSERT(optimizer_.delay_compensation.kind == CompensationKind::kNone,
                  "delay compensation on a device");
  auto made =
      settings.device->make_shard({size, settings.optimizer, settings.factors,
                                   settings.combine == CombineMode::kMean, settings.cluster.workers()});
  keep(made.status());
  if (!made.is_ok()) return;
  device_ = std::move(made).value();
  taken_.assign(device_->places() - 1, false);
}

// What the device breaks down with is no fault of ours or of the run, which may be gone on with from a
// checkpoint, as when a server dies.
void DeviceApply::keep(Status status) {
  if (status.is_ok() || !status_.is_ok()) return;
  if (status.code() == StatusCode::kInternal) status = unavailable(status.message());
  status_ = std::move(status).with_context("server.device: cuda");
  if (device_ != nullptr) device_->drain();
}

Range DeviceApply::elements(std::int64_t i) const {
  const std::int64_t floats = pool_.block_floats();
  return {i * floats, std::min((i + 1) * floats, size_)};
}

// Blocks that lie in [begin, size) whole.
std::int64_t DeviceApply::blocks_from(std::int64_t begin) const {
  const std::int64_t floats = pool_.block_floats();
  return (size_ + floats - 1) / floats - (begin + floats - 1) / floats;
}

bool DeviceApply::has(DeviceVector vector) const {
  return vector == DeviceVector::kParameters || optimizer_.kind == OptimizerKind::kAdam ||
         (vector == DeviceVector::kFirst && optimizer_.kind == OptimizerKind::kMomentum);
}

Status DeviceApply::restore(OptimizerImage image) {
  PACELINE_RETURN_IF_ERROR(check_image(image, optimizer_.kind, size_));
  restored_ = std::move(image);
  return Status::ok();
}

void DeviceApply::begin(const BlockRange& now) {
  if (!status_.is_ok()) return;
  const auto load = [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(load_all(DeviceVector::kParameters, now));
    if (restored_) {
      steps_ = restored_->steps;
      PACELINE_RETURN_IF_ERROR(load_all(DeviceVector::kFirst, restored_->first));
      PACELINE_RETURN_IF_ERROR(load_all(DeviceVector::kSecond, restored_->second));
    }
    return device_->finish();
  };
  keep(load());
  restored_.reset();
}

Status DeviceApply::load_all(DeviceVector vector, const BlockRange& blocks) {
  for (std::int64_t i = 0; i < blocks.block_count(); ++i) {
    PACELINE_RETURN_IF_ERROR(device_->load(vector, blocks.elements(i).begin, blocks.block(i)));
  }
  return Status::ok();
}

Result<OptimizerImage> DeviceApply::image() {
  PACELINE_RETURN_IF_ERROR(status_);
  OptimizerImage image;
  image.steps = steps_;
  const auto fetch = [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(fetch_all(DeviceVector::kFirst, image.first));
    PACELINE_RETURN_IF_ERROR(fetch_all(DeviceVector::kSecond, image.second));
    return device_->finish();
  };
  keep(fetch());
  PACELINE_RETURN_IF_ERROR(status_);
  return image;
}

Status DeviceApply::fetch_all(DeviceVector vector, BlockRange& blocks) {
  if (!has(vector)) return Status::ok();
  blocks = BlockRange(state_pool_, size_);
  for (std::int64_t i = 0; i < blocks.block_count(); ++i) {
    PACELINE_RETURN_IF_ERROR(device_->fetch(vector, blocks.elements(i).begin, blocks.owned(i, state_pool_)));
  }
  return Status::ok();
}

std::vector<DeviceApply::Begun>::iterator DeviceApply::find(WorkerId worker, Clock clock) {
  return std::find_if(begun_.begin(), begun_.end(),
                      [&](const Begun& b) { return b.worker == worker && b.clock == clock; });
}

void DeviceApply::arrived(const wire::Push& push) {
  if (!status_.is_ok()) return;
  may_send_ = true;
  if (find(push.worker, push.clock) != begun_.end()) return;
  begun_.push_back({push.worker, push.clock, std::nullopt, size_});
}

// Older clocks first: they are decided first.
bool DeviceApply::send_some(const GradientStore& gradients) {
  if (!may_send()) return false;
  const Gradient* next = nullptr;
  Begun* next_begun = nullptr;
  for (Begun& begun : begun_) {
    if (next_begun != nullptr && begun.clock >= next_begun->clock) continue;
    const Gradient* const gradient = gradients.begun(begun.worker, begun.clock);
    if (gradient == nullptr || gradient->arrived().begin >= begun.sent_begin || !find_place(begun)) continue;
    next = gradient;
    next_begun = &begun;
  }
  if (!status_.is_ok() || next == nullptr) return may_send_ = false;
  const std::int64_t end = next_begun->sent_begin;
  const std::int64_t block = (end - 1) / pool_.block_floats();
  const std::int64_t begin = std::max(next->arrived().begin, elements(block).begin);
  keep(send(*next, *next_begun->place, {begin, end}));
  next_begun->sent_begin = begin;
  return status_.is_ok();
}

void DeviceApply::send_whole(const Gradient& whole) {
  const auto begun = find(whole.worker(), whole.clock());
  if (!status_.is_ok() || begun == begun_.end() || !find_place(*begun)) return;
  keep(send(whole, *begun->place, {0, begun->sent_begin}));
  begun->sent_begin = 0;
}

// True: it has one. It may be that of the newest clock, if that is newer than its own.
bool DeviceApply::find_place(Begun& begun) {
  if (begun.place) return true;
  auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) {
    const auto newest = std::max_element(begun_.begin(), begun_.end(), [](const Begun& a, const Begun& b) {
      return b.place && (!a.place || a.clock < b.clock);
    });
    if (!newest->place || newest->clock <= begun.clock) return false;
    leave_place(*newest);
    free = std::find(taken_.begin(), taken_.end(), false);
  }
  *free = true;
  begun.place = 1 + static_cast<std::size_t>(free - taken_.begin());
  begun.sent_begin = size_;
  keep(device_->begin(*begun.place));
  return status_.is_ok();
}

void DeviceApply::leave_place(Begun& begun) {
  if (!begun.place) return;
  dropped_ += blocks_from(begun.sent_begin);
  taken_[*begun.place - 1] = false;
  begun.place.reset();
  begun.sent_begin = size_;
  may_send_ = true;
}

// Its memory may be another's when this is over.
void DeviceApply::forget_missing(const GradientStore& gradients) {
  if (!status_.is_ok()) return;
  const auto is_here = [&](const Begun& begun) {
    return gradients.begun(begun.worker, begun.clock) != nullptr;
  };
  const auto gone = std::stable_partition(begun_.begin(), begun_.end(), is_here);
  if (gone == begun_.end()) return;
  std::for_each(gone, begun_.end(), [this](Begun& begun) { leave_place(begun); });
  begun_.erase(gone, begun_.end());
  settle();
}

void DeviceApply::settle() {
  if (status_.is_ok()) keep(device_->settle());
}

Status DeviceApply::send(const Gradient& gradient, std::size_t place, Range part) {
  Status sent;
  gradient.for_each_shared_in(part, [&](std::int64_t offset, SharedFloats values) {
    if (sent.is_ok()) sent = device_->send(place, offset, std::move(values));
  });
  return sent;
}

void DeviceApply::apply(const wire::ApplyDecision& decision, const GradientStore& gradients,
                        BlockRange& now) {
  if (!status_.is_ok() || decision.contributions.empty()) return;
  std::vector<BlockRef> fresh(static_cast<std::size_t>(block_count()));
  const auto apply = [&]() -> Status {
    PACELINE_RETURN_IF_ERROR(put_in(decision, gradients, now, fresh));
    return device_->finish();
  };
  keep(apply());
  if (!status_.is_ok()) return;
  for (std::int64_t i = 0; i < block_count(); ++i) {
    if (BlockRef& block = fresh[static_cast<std::size_t>(i)]) now.replace(i, std::move(block));
  }
  for (const wire::Contribution& c : decision.contributions) {
    const auto begun = find(c.worker, c.clock);
    if (begun == begun_.end()) continue;
    if (begun->place) taken_[*begun->place - 1] = false;
    begun_.erase(begun);
  }
  may_send_ = !begun_.empty();
}

// Puts the whole decision in, without waiting.
Status DeviceApply::put_in(const wire::ApplyDecision& decision, const GradientStore& gradients,
                           BlockRange& now, std::vector<BlockRef>& fresh) {
  const bool mean = decision.combine == wire::Combine::kMean;
  std::int64_t samples = 0;
  for (const wire::Contribution& c : decision.contributions) samples += c.samples;
  if (mean) ++steps_;
  DeviceSum sum = DeviceSum::kBegins;
  for (const wire::Contribution& c : decision.contributions) {
    const bool last = &c == &decision.contributions.back();
    PACELINE_ASSIGN_OR_RETURN(const Taking taking, take(c, gradients));
    const float weight = staleness_weight(optimizer_.staleness, c.samples, c.staleness);
    if (mean && !last) {
      PACELINE_RETURN_IF_ERROR(each_stretch(
          taking, Cut::kNotAtAll, [&](Range part) { return device_->add(taking.place, part, weight, sum); }));
      sum = DeviceSum::kGoesOn;
      continue;
    }
    DeviceStep step{decision.learning_rate, steps_, std::nullopt};
    if (mean) {
      step.mean = DeviceMean{sum, weight, 1.0F / static_cast<float>(samples)};
    } else {
      step.learning_rate /= staleness_divisor(optimizer_.staleness, c.staleness);
      if (optimizer_.kind != OptimizerKind::kSgd) step.t = ++steps_;
    }
    const auto step_and_fetch = [&](Range part) -> Status {
      PACELINE_RETURN_IF_ERROR(device_->step(taking.place, part, step));
      return last ? fetch(part.begin / pool_.block_floats(), now, fresh) : Status::ok();
    };
    PACELINE_RETURN_IF_ERROR(each_stretch(taking, last ? Cut::kIntoBlocks : Cut::kNotAtAll, step_and_fetch));
  }
  return Status::ok();
}

Result<DeviceApply::Taking> DeviceApply::take(const wire::Contribution& c, const GradientStore& gradients) {
  const Gradient* const gradient = gradients.find(c.worker, c.clock);
  PACELINE_ASSERT(gradient != nullptr, "the gradient of worker " + to_string(c.worker) + " stamped " +
                                           to_string(c.clock) + " is decided and not here");
  if (const auto begun = find(c.worker, c.clock); begun != begun_.end() && begun->place) {
    committed_ += blocks_from(begun->sent_begin);
    return Taking{gradient, *begun->place, begun->sent_begin};
  }
  PACELINE_RETURN_IF_ERROR(device_->begin(kInTurn));
  return Taking{gradient, kInTurn, size_};
}

// use(part) for parts that are the range together, of which the gradient is there then: what is not is sent
// ahead of each. From the end on, where what was sent ahead lies, so that the device has work meanwhile.
template <typename Use>
Status DeviceApply::each_stretch(const Taking& taking, Cut cut, const Use& use) {
  if (cut == Cut::kNotAtAll && taking.sent_begin == 0) return use(Range{0, size_});
  for (std::int64_t i = block_count() - 1; i >= 0; --i) {
    const Range part = elements(i);
    if (taking.sent_begin > part.begin) {
      const Range missing{part.begin, std::min(part.end, taking.sent_begin)};
      PACELINE_RETURN_IF_ERROR(send(*taking.gradient, taking.place, missing));
    }
    PACELINE_RETURN_IF_ERROR(use(part));
  }
  return Status::ok();
}

// In place where nobody else holds the block, as BlockRange::rewrite().
Status DeviceApply::fetch(std::int64_t i, BlockRange& now, std::vector<BlockRef>& fresh) {
  const Range part = elements(i);
  if (now.ref(i).unique()) return device_->fetch(DeviceVector::kParameters, part.begin, now.owned(i, pool_));
  BlockRef& block = fresh[static_cast<std::size_t>(i)] = pool_.acquire();
  const std::span<float> to(block.writable_data(), static_cast<std::size_t>(part.size()));
  return device_->fetch(DeviceVector::kParameters, part.begin, to);
}

}  // namespace paceline::server
