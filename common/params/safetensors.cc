#include "common/params/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/files/shallow_json.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are read and written as they lie in memory");

using Json = nlohmann::json;
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kHeaderBytesMax = 100'000'000;  // as the package has it
constexpr std::size_t kSafetensorsBytesMax = std::size_t{1} << 38;
constexpr std::int64_t kNumbersMax = std::int64_t{1} << 40;  // as a layout
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kFloat = "F32";
constexpr const char* kBrainFloat = "BF16";  // the upper half of a float32

// What the header says of one tensor.
struct Entry {
  std::string name;
  std::string type;
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;  // of its bytes
  std::size_t end = 0;
};

// 0 for one of none of our types.
std::size_t bytes_of_number(const std::string& type) {
  return type == kFloat ? 4 : type == kBrainFloat ? 2 : 0;
}

// Nothing for sizes that no layout has.
std::optional<std::size_t> count_numbers(const std::vector<std::int64_t>& shape) {
  std::int64_t numbers = 1;
  for (const std::int64_t length : shape) {
    if (length < 0 || (length > 0 && numbers > kNumbersMax / length)) return std::nullopt;
    numbers *= length;
  }
  return static_cast<std::size_t>(numbers);
}

std::string contradiction(const Entry& entry, const std::string& what) {
  return "its header contradicts itself: tensor '" + entry.name + "' " + what;
}

// Json would make a whole number of 4.5, true and -1, too. Throws Json::exception for what is no list.
Result<std::vector<std::size_t>> whole_numbers(const std::string& tensor, const Json& list) {
  std::vector<std::size_t> numbers;
  for (const Json& number : list.get_ref<const Json::array_t&>()) {
    if (!number.is_number_unsigned()) {
      return data_loss("tensor '" + tensor + "': got " + number.dump() +
                       " among its sizes and offsets, expected whole numbers from 0 on");
    }
    numbers.push_back(number.get<std::size_t>());
  }
  return numbers;
}

// In the order of their bytes, which cover `data_bytes` without a hole.
Status check_covered(const std::vector<Entry>& entries, std::size_t data_bytes) {
  std::size_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) {
      return data_loss(contradiction(entry, "begins at " + std::to_string(entry.begin) + ", expected " +
                                                std::to_string(end) + ", where the tensor before it ends"));
    }
    end = entry.end;
  }
  if (end == data_bytes) return Status::ok();
  return data_loss((data_bytes < end ? "truncated: " : "too long: ") + std::to_string(data_bytes) +
                   " bytes after its header, expected " + std::to_string(end));
}

// Throws Json::exception where a field is missing or of another type.
Result<std::vector<Entry>> entries_of(const Json& header, std::size_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : header.get_ref<const Json::object_t&>()) {
    if (name == kMetadata) continue;
    PACELINE_ASSIGN_OR_RETURN(const auto offsets, whole_numbers(name, tensor.at("data_offsets")));
    if (offsets.size() != 2)
      return data_loss("tensor '" + name + "' has " + std::to_string(offsets.size()) +
                       " offsets, expected 2");
    PACELINE_ASSIGN_OR_RETURN(const auto shape, whole_numbers(name, tensor.at("shape")));
    Entry entry{
        name, tensor.at("dtype").get<std::string>(), {shape.begin(), shape.end()}, offsets[0], offsets[1]};
    if (entry.begin > entry.end) return data_loss(contradiction(entry, "ends before it begins"));
    const std::size_t width = bytes_of_number(entry.type);
    const std::optional<std::size_t> numbers = count_numbers(entry.shape);
    if (width > 0 && (!numbers || *numbers * width != entry.end - entry.begin)) {
      return data_loss(contradiction(entry, "has " + std::to_string(entry.end - entry.begin) +
                                                " bytes, expected as many as its shape says"));
    }
    entries.push_back(std::move(entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  PACELINE_RETURN_IF_ERROR(check_covered(entries, data_bytes));
  return entries;
}

void append_numbers(std::string_view bytes, std::size_t width, std::vector<float>& to) {
  const std::size_t before = to.size();
  const std::size_t numbers = bytes.size() / width;
  to.resize(before + numbers);
  if (width == sizeof(float)) {
    if (numbers > 0) std::memcpy(&to[before], bytes.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < numbers; ++i) {
    std::uint16_t upper = 0;
    std::memcpy(&upper, bytes.data() + i * width, width);
    to[before + i] = std::bit_cast<float>(std::uint32_t{upper} << 16);
  }
}

Result<Safetensors> parse_safetensors(std::string_view bytes) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() >= kLengthBytes) std::memcpy(&header_bytes, bytes.data(), kLengthBytes);
  if (bytes.size() < kLengthBytes || header_bytes > kHeaderBytesMax ||
      bytes.size() - kLengthBytes < header_bytes) {
    return data_loss("cut, or no safetensors: " + std::to_string(bytes.size()) + " bytes, and a header of " +
                     std::to_string(header_bytes));
  }
  const Json header = parse_shallow<Json>(bytes.substr(kLengthBytes, header_bytes));
  const std::string_view data = bytes.substr(kLengthBytes + header_bytes);
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Entry> entries, entries_of(header, data.size()));
  Safetensors file;
  file.model.info.model = "safetensors";
  for (const Entry& entry : entries) {
    const std::size_t width = bytes_of_number(entry.type);
    if (width == 0 || entry.begin == entry.end) {
      file.left_out.push_back(entry.name + " " + entry.type + " " + Json(entry.shape).dump());
      continue;
    }
    const auto added = file.model.info.layout.add(entry.name, entry.shape);
    if (!added.is_ok()) return data_loss(added.status().message());
    append_numbers(data.substr(entry.begin, entry.end - entry.begin), width, file.model.parameters);
  }
  return file;
}

// Whether it is UTF-8, as everything in JSON.
bool is_text(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace

bool is_safetensors(const std::filesystem::path& path) {
  if (path.extension() == ".safetensors") return true;
  std::array<char, kLengthBytes + 1> begin{};
  std::ifstream file(path, std::ios::binary);
  if (!file.read(begin.data(), begin.size())) return false;
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, begin.data(), kLengthBytes);
  return header_bytes <= kHeaderBytesMax && begin.back() == '{';
}

Status write_safetensors(const std::filesystem::path& path, const ModelInfo& info,
                         std::span<const float> parameters) {
  PACELINE_ASSERT(std::ssize(parameters) == info.layout.size(),
                  std::to_string(parameters.size()) + " floats");
  Json header;
  // "pt": the tensors lie as PyTorch has them, by which some readers choose how to read.
  header[kMetadata] = {
      {"format", "pt"}, {"model", info.model}, {"version", std::to_string(info.version.value)}};
  for (const Tensor& tensor : info.layout.tensors()) {
    if (tensor.name == kMetadata || !is_text(tensor.name)) {
      const std::string shown = Json(tensor.name).dump(-1, ' ', true, Json::error_handler_t::replace);
      return invalid_argument("tensor " + shown + ": its name cannot be written, expected UTF-8, and not '" +
                              kMetadata + "'");
    }
    const std::int64_t begin = tensor.offset * std::int64_t{sizeof(float)};
    header[tensor.name] = {{"dtype", kFloat},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + tensor.size() * std::int64_t{sizeof(float)}}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes,
              ' ');  // the tensors are aligned so
  const std::uint64_t length = text.size();
  return write_file_atomically(path, {std::as_bytes(std::span(&length, 1)), std::as_bytes(std::span(text)),
                                      std::as_bytes(parameters)});
}

Result<Safetensors> read_safetensors(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string bytes, read_file(path, kSafetensorsBytesMax));
  try {
    Result<Safetensors> file = parse_safetensors(bytes);
    if (!file.is_ok()) return Status(file.status()).with_context(path.string());
    return file;
  } catch (const Json::exception& error) {
    return data_loss(path.string() + ": its header cannot be read: " + error.what());
  }
}

}  // namespace paceline
