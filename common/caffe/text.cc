#include "common/caffe/text.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

namespace paceline::caffe {
namespace {

constexpr std::size_t kBytesMax = 16 << 20;  // larger is no text
constexpr int kDepthMax = 64;                // of messages in messages; Caffe's have six

// Keeps the first error, and what is said of fields that are not known.
class Collector final : public google::protobuf::io::ErrorCollector {
 public:
  Collector(const std::string& file, std::vector<std::string>& notes) : file_(file), notes_(notes) {}

  void AddError(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
    if (!error_) error_ = at_line(file_, line + 1) + ": " + message;
  }
  // "Message type "paceline.caffe.LayerParameter" has no field named "foo"."
  void AddWarning(int line, google::protobuf::io::ColumnNumber, const std::string& message) override {
    const std::string before = "has no field named \"";
    const std::size_t at = message.find(before);
    if (at == std::string::npos) return;
    const std::size_t begin = at + before.size();
    notes_.push_back(at_line(file_, line + 1) + ": " +
                     message.substr(begin, message.find('"', begin) - begin) +
                     " is not known and is left out");
  }

  const std::optional<std::string>& error() const { return error_; }

 private:
  const std::string& file_;
  std::vector<std::string>& notes_;
  std::optional<std::string> error_;
};

}  // namespace

Status read_text(const std::string& file, google::protobuf::Message& message, Lines& lines,
                 std::vector<std::string>& notes) {
  errno = 0;
  std::ifstream stream(file, std::ios::binary);
  std::string text(kBytesMax + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!stream.is_open() || stream.bad() || (stream.gcount() == 0 && errno != 0)) {
    return not_found(file + ": cannot be read, got \"" + std::generic_category().message(errno) +
                     "\", expected a file in protobuf's text format");
  }
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > kBytesMax) {
    return invalid_argument(file + ": got more than 16 MiB, expected a file in protobuf's text format");
  }
  Collector collector(file, notes);
  google::protobuf::TextFormat::Parser parser;
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(kDepthMax);
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&lines);
  google::protobuf::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (parser.Parse(&input, &message) && !collector.error()) return Status::ok();
  return invalid_argument(collector.error().value_or(file + ": not in protobuf's text format"));
}

std::string find_file(const std::string& path, const std::string& from) {
  std::error_code none;
  if (std::filesystem::exists(path, none)) return path;
  if (std::filesystem::path(path).is_absolute()) return "";
  for (auto folder = std::filesystem::absolute(from, none).parent_path();; folder = folder.parent_path()) {
    if (const auto found = folder / path; std::filesystem::exists(found, none)) return found.string();
    if (folder == folder.parent_path()) return "";
  }
}

}  // namespace paceline::caffe
