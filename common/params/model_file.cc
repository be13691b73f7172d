// The model file, byte by byte. Beside safetensors.cc the only file of this library that sees JSON, and the only one
// that sees the checksum's library.
#include "common/params/model_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/files/atomic_file.h"
#include "common/files/shallow_json.h"
#include "common/hex.h"

namespace paceline {
namespace {

static_assert(std::endian::native == std::endian::little, "the parameters are written as they lie in memory");

using Json = nlohmann::json;
constexpr std::string_view kMagic = "PACELIN1";
constexpr std::size_t kFixedBytes = 16;
constexpr std::size_t kValuesAlignment = 64;
constexpr std::size_t kFileBytesMax = std::size_t{1} << 38;

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

void append_u32(std::string& bytes, std::uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(number >> shift));
}

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= std::uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return number;
}

std::size_t data_begin(std::size_t header_bytes) {
  return (kFixedBytes + header_bytes + kValuesAlignment - 1) / kValuesAlignment * kValuesAlignment;
}

constexpr std::array kRoles{"weight", "bias", "norm", "buffer"};  // by TensorRole

std::string shape_text(const Tensor& tensor) {
  std::string text = tensor.name + " [";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  text += "]";
  if (tensor.traits == usual_traits(tensor.name)) return text;
  return text + " as " + kRoles[static_cast<std::size_t>(tensor.traits.role)] + " with learning rate x " +
         std::to_string(tensor.traits.lr_factor) + " and decay x " +
         std::to_string(tensor.traits.decay_factor) +
         (tensor.traits.may_be_unused ? ", which may be unused" : "");
}

Json tensor_json(const Tensor& tensor) {
  Json json{{"name", tensor.name}, {"shape", tensor.shape}, {"offset", tensor.offset}};
  if (tensor.traits == usual_traits(tensor.name)) return json;
  json["role"] = kRoles[static_cast<std::size_t>(tensor.traits.role)];
  json["lr_factor"] = tensor.traits.lr_factor;
  json["decay_factor"] = tensor.traits.decay_factor;
  if (tensor.traits.may_be_unused) json["may_be_unused"] = true;
  return json;
}

Result<TensorTraits> traits_from(const Json& tensor, const std::string& name) {
  if (!tensor.contains("role")) return usual_traits(name);
  const auto role = tensor.at("role").get<std::string>();
  const auto found = std::find(kRoles.begin(), kRoles.end(), role);
  if (found == kRoles.end()) return data_loss("tensor '" + name + "' has an unknown role '" + role + "'");
  return TensorTraits{static_cast<TensorRole>(found - kRoles.begin()), tensor.at("lr_factor").get<double>(),
                      tensor.at("decay_factor").get<double>(), tensor.value("may_be_unused", false)};
}

Json header_json(const ModelInfo& info, std::uint32_t data_crc) {
  Json tensors = Json::array();
  for (const Tensor& tensor : info.layout.tensors()) {
    tensors.push_back(tensor_json(tensor));
  }
  return {{"model", info.model},
          {"version", info.version.value},
          {"revision", info.revision.value},
          {"layout_hash", hex(info.layout.hash())},
          {"floats", info.layout.size()},
          {"data_crc32c", data_crc},
          {"tensors", std::move(tensors)}};
}

// The header's fields, once its checksum agrees. Throws Json::exception where one is missing or of another
// type.
Result<ModelInfo> info_from(const Json& header) {
  ModelInfo info;
  info.model = header.at("model").get<std::string>();
  info.version = Version(header.at("version").get<std::int64_t>());
  info.revision = Revision(header.at("revision").get<std::int64_t>());
  for (const Json& tensor : header.at("tensors")) {
    const auto name = tensor.at("name").get<std::string>();
    PACELINE_ASSIGN_OR_RETURN(const TensorTraits traits, traits_from(tensor, name));
    const auto added = info.layout.add(name, tensor.at("shape").get<std::vector<std::int64_t>>(), traits);
    if (!added.is_ok()) return data_loss(added.status().message());
  }
  const auto hash = header.at("layout_hash").get<std::string>();
  if (hash != hex(info.layout.hash())) {
    return data_loss("its tensors have layout hash " + hex(info.layout.hash()) + ", its header says " + hash);
  }
  if (header.at("floats").get<std::int64_t>() != info.layout.size()) {
    return data_loss("its tensors have " + std::to_string(info.layout.size()) + " floats, its header says " +
                     header.at("floats").dump());
  }
  return info;
}

Result<ModelFile> parse(std::string_view bytes) {
  if (bytes.size() < kFixedBytes || bytes.substr(0, kMagic.size()) != kMagic) {
    return invalid_argument("not a paceline model: it does not begin with " + std::string(kMagic));
  }
  const std::size_t header_bytes = read_u32(bytes, 8);
  if (bytes.size() - kFixedBytes < header_bytes) {
    return data_loss("truncated: " + std::to_string(bytes.size()) + " bytes, its header alone needs " +
                     std::to_string(kFixedBytes + header_bytes));
  }
  const std::string_view header_text = bytes.substr(kFixedBytes, header_bytes);
  if (crc32c(header_text) != read_u32(bytes, 12)) return data_loss("the checksum of its header is wrong");
  const Json header = parse_shallow<Json>(header_text);
  PACELINE_ASSIGN_OR_RETURN(ModelInfo info, info_from(header));

  const std::size_t begin = data_begin(header_bytes);
  const std::size_t data_bytes = static_cast<std::size_t>(info.layout.size()) * sizeof(float);
  if (bytes.size() != begin + data_bytes) {
    return data_loss((bytes.size() < begin + data_bytes ? "truncated: " : "too long: ") +
                     std::to_string(bytes.size()) + " bytes, expected " + std::to_string(begin + data_bytes));
  }
  const std::string_view data = bytes.substr(begin);
  if (crc32c(data) != header.at("data_crc32c").get<std::uint32_t>()) {
    return data_loss("the checksum of its parameters is wrong");
  }
  ModelFile model{std::move(info), std::vector<float>(data_bytes / sizeof(float))};
  if (data_bytes > 0) std::memcpy(model.parameters.data(), data.data(), data_bytes);
  return model;
}

}  // namespace

Status write_model_file(const std::filesystem::path& path, const ModelInfo& info,
                        std::span<const std::span<const float>> pieces) {
  std::vector<std::span<const std::byte>> parts(1);  // the header's place
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> data_crc;
  std::size_t floats = 0;
  for (const std::span<const float> piece : pieces) {
    floats += piece.size();
    parts.push_back(std::as_bytes(piece));
    data_crc.process_bytes(parts.back().data(), parts.back().size());
  }
  PACELINE_ASSERT(static_cast<std::int64_t>(floats) == info.layout.size(),
                  std::to_string(floats) + " floats, layout " + std::to_string(info.layout.size()));
  const std::string header = header_json(info, data_crc.checksum()).dump();
  std::string head(kMagic);
  append_u32(head, static_cast<std::uint32_t>(header.size()));
  append_u32(head, crc32c(header));
  head += header;
  head.resize(data_begin(header.size()), '\0');
  parts.front() = std::as_bytes(std::span(head));
  return write_file_atomically(path, parts);
}

Status write_model_file(const std::filesystem::path& path, const ModelInfo& info,
                        std::span<const float> parameters) {
  return write_model_file(path, info, std::span(&parameters, 1));
}

Result<ModelFile> read_model_file(const std::filesystem::path& path) {
  PACELINE_ASSIGN_OR_RETURN(const std::string bytes, read_file(path, kFileBytesMax));
  try {
    Result<ModelFile> model = parse(bytes);
    if (!model.is_ok()) return Status(model.status()).with_context(path.string());
    return model;
  } catch (const Json::exception& error) {
    return data_loss(path.string() + ": its header cannot be read: " + error.what());
  }
}

Status require_layout(const ModelFile& model, const Layout& expected, const std::filesystem::path& file) {
  const Layout& got = model.info.layout;
  if (got.hash() == expected.hash()) return Status::ok();
  const std::string hashes = file.string() + " holds another network: layout hash " + hex(got.hash()) +
                             ", expected " + hex(expected.hash());
  const auto text_at = [](const Layout& layout, std::size_t i) {
    return i < layout.tensors().size() ? shape_text(layout.tensors()[i]) : std::string("no tensor");
  };
  const std::size_t count = std::max(got.tensors().size(), expected.tensors().size());
  std::size_t i = 0;
  while (i < count && text_at(got, i) == text_at(expected, i)) ++i;
  return invalid_argument(hashes + "; tensor " + std::to_string(i) + " is " + text_at(got, i) +
                          ", expected " + text_at(expected, i));
}

}  // namespace paceline
