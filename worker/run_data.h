// What a run learns from and is tested with, as its configuration says (data:): CIFAR-10's files in memory, or a
// folder of pictures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/status.h"
#include "worker/data/augment.h"
#include "worker/data/batch_maker.h"
#include "worker/data/data_set.h"
#include "worker/data/loader.h"
#include "worker/data/samples.h"

namespace paceline {

class BadPictures;   // worker/images/image_samples.h
class EncodedCache;  // worker/images/encoded_cache.h
class ImageList;     // worker/images/image_list.h

// Whether run.out is made where the index of pictures can lie nowhere else: by a node of the run and by a
// program's data, which the run may follow, and not by who only looks.
enum class RunFolder { kMayBeMade, kAsItIs };

// Thread: any after construction, but for warn_to().
class RunData {
 public:
  // Reads the training set, or what is known of its pictures, and sees that the test set is there and whole.
  // Errors: kInvalidArgument without a data.path, with other than data.train_samples, or with fewer samples than nodes
  // that each have a part; those of worker/data/cifar10.h and of worker/images/image_folder.h.
  static Result<RunData> open(const RunConfig& config, RunFolder run_folder);

  const std::shared_ptr<const Samples>& train() const { return train_; }
  // Who makes its mini-batches, as the run shuffles and parts them.
  std::shared_ptr<const BatchMaker> maker(Images images = Images::kRendered) const;
  // Files in memory are read when this is asked for: a node that never evaluates needs no memory for them.
  // Errors: those of the files.
  Result<std::shared_ptr<const Samples>> test() const;

  // Of the training set: what the nodes of a run must have in common.
  std::uint64_t fingerprint() const { return fingerprint_; }
  // Of the test set, too. Errors: those of the files.
  Result<std::uint64_t> fingerprint_of_both() const;

  // The training set where it lies in memory, and how it becomes what the network sees; null: pictures.
  const DataSetPtr& in_memory() const { return in_memory_; }
  const PixelRule& pixels() const { return pixels_; }
  const BatchOptions& options() const { return options_; }

  // Pictures that cannot be read: those that the index found, and those found since.
  std::int64_t samples_left_out() const;
  // What node `node` says of them, so that the run counts each once (TaskFactory::samples_left_out()).
  std::int64_t samples_left_out_by(NodeId node) const;

  // Takes a line for each picture that cannot be read: those of before at once, up to twenty. Before samples are
  // asked for, if at all.
  void warn_to(const std::function<void(const std::string&)>& warn);

 private:
  explicit RunData(const RunConfig& config);
  Status open_files();
  Status take_mean_file();
  Status open_pictures(const RunConfig& config, RunFolder run_folder);

  DataSection data_;
  BatchOptions options_;
  FixedParts parts_;
  PixelRule pixels_;
  std::uint64_t fingerprint_ = 0;
  std::shared_ptr<const Samples> train_;
  DataSetPtr in_memory_;
  std::shared_ptr<const ImageList> test_pictures_;  // null: files
  std::shared_ptr<BadPictures> bad_;                // null: files
  std::shared_ptr<EncodedCache> cache_;             // null: files, or none are kept
  std::vector<std::string> warnings_;               // of before
  std::int64_t left_out_ = 0;                       // likewise
};

// The mini-batches that `worker` will probably be granted. Under `share: even` rank r of K has the r-th n of each
// K n samples, n being a round's; from a pool, whatever it is granted.
Prediction predicted_batches(const RunConfig& config, WorkerId worker);

}  // namespace paceline
