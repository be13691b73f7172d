// The manifest, byte by byte. The only file that sees what is generated from proto/manifest.proto.
#include "server/checkpoint/manifest.h"

#include <cmath>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "common/files/atomic_file.h"
#include "common/hex.h"
#include "proto/manifest.pb.h"
#include "server/checkpoint/checksum.h"

namespace paceline::server {
namespace {

constexpr std::string_view kManifestMagic = "PACEMAN1";
constexpr std::size_t kSumBytes = sizeof(std::uint64_t);

std::uint64_t sum_of(std::string_view bytes) { return checksum(std::as_bytes(std::span(bytes))); }

proto::Manifest to_proto(const Manifest& manifest) {
  proto::Manifest out;
  out.set_generation(manifest.id.generation);
  out.set_version(manifest.id.version.value);
  out.set_revision(manifest.revision.value);
  out.set_decisions(manifest.decisions);
  out.set_layout_hash(manifest.layout_hash);
  out.set_fingerprint(manifest.fingerprint);
  for (const FileDigest& shard : manifest.shards) {
    proto::FileDigest* const digest = out.add_shards();
    digest->set_bytes(shard.bytes);
    digest->set_checksum(shard.checksum);
  }
  out.set_seconds_trained(manifest.seconds_trained);
  out.set_engine(manifest.engine);
  out.set_record(manifest.record);
  for (const std::string& setting : manifest.settings) out.add_settings(setting);
  if (manifest.data_fingerprint) out.set_data_fingerprint(*manifest.data_fingerprint);
  return out;
}

// Its numbers are those of some run.
Status check(const Manifest& manifest) {
  const auto refuse = [](const std::string& what, const std::string& got, const std::string& expected) {
    return data_loss("it says " + what + " " + got + ", expected " + expected);
  };
  if (manifest.id.generation == 0) return refuse("generation", "0", "1 or more");
  if (manifest.id.version < Version(0)) return refuse("version", to_string(manifest.id.version), "0 or more");
  if (manifest.revision < Revision(0)) return refuse("revision", to_string(manifest.revision), "0 or more");
  if (manifest.decisions < 0) return refuse("decisions", std::to_string(manifest.decisions), "0 or more");
  if (manifest.shards.empty() || manifest.shards.size() > kManifestShardsMax) {
    return refuse("shards", std::to_string(manifest.shards.size()),
                  "1 to " + std::to_string(kManifestShardsMax));
  }
  if (!std::isfinite(manifest.seconds_trained) || manifest.seconds_trained < 0) {
    return refuse("seconds trained", std::to_string(manifest.seconds_trained), "0 or more");
  }
  return Status::ok();
}

Result<Manifest> from_proto(proto::Manifest& in) {
  Manifest manifest;
  manifest.id = {in.generation(), Version(in.version())};
  manifest.revision = Revision(in.revision());
  manifest.decisions = in.decisions();
  manifest.layout_hash = in.layout_hash();
  manifest.fingerprint = in.fingerprint();
  for (const proto::FileDigest& shard : in.shards())
    manifest.shards.push_back({shard.bytes(), shard.checksum()});
  manifest.seconds_trained = in.seconds_trained();
  manifest.engine = std::move(*in.mutable_engine());
  manifest.record = std::move(*in.mutable_record());
  manifest.settings.assign(in.settings().begin(), in.settings().end());
  if (in.has_data_fingerprint()) manifest.data_fingerprint = in.data_fingerprint();
  PACELINE_RETURN_IF_ERROR(check(manifest));
  return manifest;
}

Result<Manifest> parse(std::string_view bytes) {
  if (bytes.substr(0, kManifestMagic.size()) != kManifestMagic.substr(0, bytes.size())) {
    return invalid_argument("not a checkpoint's manifest: it does not begin with " +
                            std::string(kManifestMagic));
  }
  if (bytes.size() < kManifestMagic.size() + kSumBytes) {
    return data_loss("truncated: " + std::to_string(bytes.size()) + " bytes, expected at least " +
                     std::to_string(kManifestMagic.size() + kSumBytes));
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kSumBytes);
  std::uint64_t expected = 0;
  std::memcpy(&expected, bytes.data() + body.size(), sizeof expected);
  if (const std::uint64_t computed = sum_of(body); computed != expected) {
    return data_loss("truncated, grown or corrupted: checksum " + hex(computed) + ", expected " +
                     hex(expected));
  }
  proto::Manifest in;
  const std::string_view encoded = body.substr(kManifestMagic.size());
  if (!in.ParseFromArray(encoded.data(), static_cast<int>(encoded.size()))) {
    return data_loss("its " + std::to_string(encoded.size()) + " bytes cannot be read as a manifest");
  }
  return from_proto(in);
}

}  // namespace

Status write_manifest(const std::filesystem::path& path, const Manifest& manifest) {
  const proto::Manifest out = to_proto(manifest);
  const std::size_t bytes = kManifestMagic.size() + out.ByteSizeLong() + kSumBytes;
  if (bytes > kManifestBytesMax) {
    return resource_exhausted("cannot write " + path.string() + ": " + std::to_string(bytes) +
                              " bytes, expected at most " + std::to_string(kManifestBytesMax));
  }
  std::string body(kManifestMagic);
  out.AppendToString(&body);
  const std::uint64_t sum = sum_of(body);
  return write_file_atomically(path, {std::as_bytes(std::span(body)), std::as_bytes(std::span(&sum, 1))});
}

Result<Manifest> read_manifest(const std::filesystem::path& path, CheckpointId id) {
  PACELINE_ASSIGN_OR_RETURN(const std::string bytes, read_file(path, kManifestBytesMax));
  Result<Manifest> manifest = parse(bytes);
  if (!manifest.is_ok()) return Status(manifest.status()).with_context(path.string());
  if (manifest->id != id) {
    return invalid_argument(path.string() + ": it is of " + to_string(manifest->id) + ", expected " +
                            to_string(id));
  }
  return manifest;
}

Result<Manifest> read_manifest(const std::filesystem::path& path, CheckpointId id,
                               std::uint64_t fingerprint) {
  Result<Manifest> manifest = read_manifest(path, id);
  if (manifest.is_ok() && manifest->fingerprint != fingerprint) {
    return invalid_argument(path.string() + ": configuration fingerprint " + hex(manifest->fingerprint) +
                            ", expected " + hex(fingerprint) + ": it is of a run with another configuration");
  }
  return manifest;
}

}  // namespace paceline::server
