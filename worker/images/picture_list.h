// A list of pictures with their labels, as Caffe's ImageData and torchvision's older readers have them: a line for
// each, its path, a space and the number of its class, from 0.
//
//   cats/one of mine.jpg 0
//   dogs/7.png 1
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/label.h"
#include "common/status.h"

namespace paceline {

struct ListedPicture {
  std::string path;  // as the line has it: from the folder of the list, or from the root
  Label label = 0;
};

// In the order of the lines; empty ones do not count. `classes`: labels lie below it; at most kClassesMax. Errors: those of reading;
// kInvalidArgument a line that is none, with its number.
Result<std::vector<ListedPicture>> read_picture_list(const std::filesystem::path& file, std::int64_t classes);

}  // namespace paceline
