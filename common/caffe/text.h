// One file in protobuf's text format, as Caffe writes networks and solvers, and at which line its parts stand.
// Internal to common/caffe.
#pragma once

#include <google/protobuf/text_format.h>

#include <filesystem>
#include <string>
#include <vector>

#include "common/status.h"

namespace paceline::caffe {

using Lines = google::protobuf::TextFormat::ParseInfoTree;

// "net.prototxt:12".
inline std::string at_line(const std::string& file, int line) { return file + ":" + std::to_string(line); }

// The line, from 1, at which the `index`-th element of the field `name` of a message of type M begins; 1 where
// it is not known. `index` is -1 of a field that is not repeated.
template <typename M>
int line_of(const Lines& lines, const char* name, int index) {
  const auto place = lines.GetLocation(M::descriptor()->FindFieldByName(name), index);
  return place.line < 0 ? 1 : place.line + 1;
}

// Reads `file` into `message`. What it does not know is named in `notes`, with its line, and left out.
// Errors, one line with file and line: kNotFound it cannot be read; kInvalidArgument it is not in this format,
// or larger than 16 MiB.
Status read_text(const std::string& file, google::protobuf::Message& message, Lines& lines,
                 std::vector<std::string>& notes);

// Where a path in a file of Caffe's points: seen from the working directory, as Caffe does; else from the
// folder of `from`, or one above it. Empty: nowhere.
std::string find_file(const std::string& path, const std::string& from);

}  // namespace paceline::caffe
