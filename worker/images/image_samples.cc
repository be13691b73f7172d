#include "worker/images/image_samples.h"

#include <algorithm>
#include <utility>

#include "common/assert.h"
#include "common/random.h"
#include "worker/images/placement.h"
#include "worker/images/read_picture.h"

namespace paceline {

void BadPictures::found(const std::string& name, const std::string& why) {
  std::size_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::lower_bound(names_.begin(), names_.end(), name);
    if (at != names_.end() && *at == name) return;
    names_.insert(at, name);
    number = names_.size();
  }
  if (warn_ == nullptr || number > kWarningsMax + 1) return;
  if (number > kWarningsMax) return warn_("more pictures are left out; they are only counted from here on");
  warn_("picture " + name + " is left out: " + why);
}

std::int64_t BadPictures::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(names_.size());
}

Normalization normalization_of(const DataSection& data) {
  Normalization normalization;
  for (std::size_t colour = 0; colour < normalization.mean.size(); ++colour) {
    normalization.mean[colour] = static_cast<float>(data.mean[colour]);
    normalization.scale[colour] = static_cast<float>(1.0 / data.deviation[colour]);
  }
  return normalization;
}

ImageSamples::ImageSamples(std::shared_ptr<const ImageList> list, const DataSection& data, std::uint64_t seed,
                           std::shared_ptr<BadPictures> bad, CachedFiles cached, std::int64_t parts)
    : list_(std::move(list)),
      data_(data),
      seed_(seed),
      normalization_(normalization_of(data)),
      bad_(std::move(bad)),
      cached_(std::move(cached)),
      parts_(parts) {
  PACELINE_ASSERT(parts_ >= 1, "pictures of no part");
  PACELINE_ASSERT(list_ != nullptr && list_->size() > 0, "samples of an empty folder");
}

std::unique_ptr<ImageSamples::Workspace> ImageSamples::take() const {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto workspace = std::move(idle_.back());
      idle_.pop_back();
      return workspace;
    }
  }
  return std::make_unique<Workspace>(data_.decode);
}

void ImageSamples::give_back(std::unique_ptr<Workspace> workspace) const {
  if (workspace->bytes() > kKeptBytesMax) {
    std::vector<std::uint8_t>().swap(workspace->file);
    workspace->renderer.release();
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

// As it lies in the cache, or as it is read into the workspace.
Result<std::span<const std::uint8_t>> ImageSamples::file_of(std::int64_t sample, Workspace& with) const {
  EncodedCache* const cache = cached_.cache.get();
  const std::int64_t place = cached_.first + sample;
  if (const auto kept = cache == nullptr ? std::nullopt : cache->find(place)) return *kept;
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t bytes, read_picture(list_->path(sample), with.file));
  if (bytes != list_->bytes(sample)) {
    return data_loss("it has " + std::to_string(bytes) + " bytes, and had " +
                     std::to_string(list_->bytes(sample)) + " when the folder was indexed");
  }
  if (cache != nullptr) cache->keep(place, with.file);
  return std::span<const std::uint8_t>(with.file);
}

Status ImageSamples::make(std::int64_t sample, const Placement& placement, Workspace& with,
                          std::span<float> out) const {
  const auto begun = std::chrono::steady_clock::now();
  PACELINE_ASSIGN_OR_RETURN(const std::span<const std::uint8_t> file, file_of(sample, with));
  with.times.read += std::chrono::steady_clock::now() - begun;
  ++with.times.samples;
  return with.renderer.render(file, list_->info(sample), placement, static_cast<int>(data_.crop.size),
                              normalization_, out);
}

// OK: another one may take its place.
Status ImageSamples::check(std::int64_t sample, const Status& fault) const {
  if (fault.code() == StatusCode::kResourceExhausted) return fault;  // no file could be read
  const std::string name = list_->path(sample).string();
  if (data_.on_bad == OnBad::kFail) {
    return data_loss("picture " + name + ": " + fault.message() + " (data.on_bad: fail)");
  }
  bad_->found(name, fault.message());
  return Status::ok();
}

Result<std::int64_t> ImageSamples::train(const SampleRef& ref, std::span<float> out) const {
  constexpr std::int64_t kInPlaceMax = 100;
  std::unique_ptr<Workspace> with = take();
  const std::int64_t part = ref.sample % parts_;
  const std::int64_t in_part = (size() - part + parts_ - 1) / parts_;
  const std::int64_t tries = std::min(kInPlaceMax, in_part);
  std::int64_t sample = ref.sample;
  Status fault;
  for (std::int64_t i = 0; i < tries; ++i) {
    sample = (ref.sample / parts_ + i) % in_part * parts_ + part;
    const PictureSize shown = list_->info(sample).shown();
    CounterRandom random(seed_, Stream::kAugment, static_cast<std::uint64_t>(ref.epoch),
                         static_cast<std::uint64_t>(ref.sample));
    const Placement placement = data_.augment ? training_placement(shown, data_.crop, random)
                                              : evaluation_placement(shown, data_.crop);
    fault = make(sample, placement, *with, out);
    if (fault.is_ok()) {
      give_back(std::move(with));
      return sample;
    }
    PACELINE_RETURN_IF_ERROR(check(sample, fault));
  }
  return data_loss(std::to_string(tries) + " pictures one after another, the last of them " +
                   list_->path(sample).string() + ", cannot be read: " + fault.message());
}

Result<bool> ImageSamples::evaluate(std::int64_t sample, std::span<float> out) const {
  std::unique_ptr<Workspace> with = take();
  const Placement placement = evaluation_placement(list_->info(sample).shown(), data_.crop);
  const Status fault = make(sample, placement, *with, out);
  give_back(std::move(with));
  if (fault.is_ok()) return true;
  PACELINE_RETURN_IF_ERROR(check(sample, fault));
  return false;
}

ImageSamples::Times ImageSamples::times() const {
  const std::lock_guard lock(mutex_);
  Times sum;
  for (const auto& workspace : idle_) {
    const RenderTimes& render = workspace->renderer.times();
    sum.read += workspace->times.read;
    sum.samples += workspace->times.samples;
    sum.render.decode += render.decode;
    sum.render.resize += render.resize;
    sum.render.normalize += render.normalize;
  }
  return sum;
}

}  // namespace paceline
