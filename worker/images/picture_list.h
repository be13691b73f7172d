// A list of pictures with their labels, as Caffe's ImageData and torchvision's older readers have them: a line for
// each, its path, a space and the number of its class, from 0.
//
//   cats/one of mine.jpg 0
//   dogs/7.png 1
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/label.h"
#include "common/status.h"

namespace paceline {

struct ListedPicture {
  std::string path;  // as the line has it: from the folder of the list, or from the root
  Label label = 0;   // the ignored -1 as it is in 16 bits
};

// In the order of the lines; empty ones do not count. `classes`: labels lie below it, but for `ignored`, -1 to 65,535;
// classes are at most kClassesMax. Errors: those of reading; kInvalidArgument a line that is none, with its number.
Result<std::vector<ListedPicture>> read_picture_list(const std::filesystem::path& file, std::int64_t classes,
                                                     std::optional<std::int64_t> ignored = {});

}  // namespace paceline
