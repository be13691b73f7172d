// The pictures of a folder as samples: each is read, decoded and cropped when it is asked for.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "worker/data/augmentation.h"
#include "worker/data/samples.h"
#include "worker/images/encoded_cache.h"
#include "worker/images/image_list.h"
#include "worker/images/renderer.h"

namespace paceline {

// Pictures that could not be read: each of the first ones is said once, all are counted.
class BadPictures {
 public:
  static constexpr std::size_t kWarningsMax = 100;
  using Warn = std::function<void(const std::string&)>;
  // Before anything is read, if at all.
  void warn_to(Warn warn) { warn_ = std::move(warn); }
  void found(const std::string& name, const std::string& why);
  std::int64_t count() const;

 private:
  Warn warn_;
  mutable std::mutex mutex_;
  std::vector<std::string> names_;  // sorted
};

// data.mean and data.deviation.
Normalization normalization_of(const DataSection& data);

// Where the files of a list are kept: they are the cache's from `first` on. Null: nowhere.
struct CachedFiles {
  std::shared_ptr<EncodedCache> cache;
  std::int64_t first = 0;
};

class ImageSamples final : public Samples {
 public:
  // `list`: not empty. `seed`: of the run. `parts`: how many nodes have fixed parts, every so many-th sample
  // (sampler.h).
  ImageSamples(std::shared_ptr<const ImageList> list, const DataSection& data, std::uint64_t seed,
               std::shared_ptr<BadPictures> bad, CachedFiles cached = {}, std::int64_t parts = 1);

  const std::shared_ptr<const ImageList>& list() const { return list_; }
  std::int64_t size() const override { return list_->size(); }
  std::int64_t floats() const override { return 3 * data_.crop.size * data_.crop.size; }
  Label label(std::int64_t sample) const override { return list_->label(sample); }
  // Where a picture cannot be read the next one of its part takes its place, cropped and mirrored with the
  // random numbers of the one that it stands for.
  Result<std::int64_t> train(const SampleRef& ref, std::span<float> out) const override;
  Result<bool> evaluate(std::int64_t sample, std::span<float> out) const override;

  // What all threads have spent so far in the parts of making a sample.
  struct Times {
    std::chrono::nanoseconds read{0};
    RenderTimes render;
    std::int64_t samples = 0;
  };
  Times times() const;

 private:
  // What a thread needs while it makes a sample. As many are kept as threads ever made one at a time, each with
  // no more memory than kKeptBytesMax.
  static constexpr std::size_t kKeptBytesMax = std::size_t{64} << 20;
  struct Workspace {
    explicit Workspace(DecodeKind decode) : renderer(decode) {}
    std::vector<std::uint8_t> file;
    Renderer renderer;
    Times times;  // but for `render`, which the renderer has

    std::size_t bytes() const { return file.capacity() + renderer.bytes(); }
  };
  std::unique_ptr<Workspace> take() const;
  void give_back(std::unique_ptr<Workspace> workspace) const;
  Result<std::span<const std::uint8_t>> file_of(std::int64_t sample, Workspace& with) const;
  Status make(std::int64_t sample, const Placement& placement, Workspace& with, std::span<float> out) const;
  Status check(std::int64_t sample, const Status& fault) const;

  const std::shared_ptr<const ImageList> list_;
  const DataSection data_;
  const std::uint64_t seed_;
  const Normalization normalization_;
  const std::shared_ptr<BadPictures> bad_;
  const CachedFiles cached_;
  const std::int64_t parts_;
  mutable std::mutex mutex_;  // guards the workspaces
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace paceline
