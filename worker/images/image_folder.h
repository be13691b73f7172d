// The training and the test set in a folder of pictures: two folders, train/ and test/ or val/, each with a
// folder for each class; or one, of whose pictures a share is the test set; or two lists, train.txt and test.txt
// or val.txt (picture_list.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/status.h"
#include "worker/images/image_list.h"

namespace paceline {

struct ImageFolder {
  std::shared_ptr<const ImageList> train;  // not empty
  std::shared_ptr<const ImageList> test;   // not empty
  std::vector<std::string> left_out;  // "path: why", of each file that is no picture or has too many pixels
  std::vector<std::string> warnings;
};

// Labels are the places of the classes' names among those of the training set, in byte order. `run_folder`:
// where an index goes that cannot lie beside the data; empty: nowhere.
// Errors: kNotFound no such folder, or neither train/ with test/ or val/ nor a data.test_share;
// kInvalidArgument another number of classes than data.classes, a class without a picture, a test class that
// training lacks, both layouts at once; kDataLoss a file that is no picture, under data.on_bad: fail;
// kUnavailable what cannot be listed.
// `ignored_label`: that lines of lists may have beside the classes'.
Result<ImageFolder> open_image_folder(const DataSection& data, const std::filesystem::path& run_folder,
                                      std::optional<std::int64_t> ignored_label = {});

}  // namespace paceline
