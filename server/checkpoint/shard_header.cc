#include "server/checkpoint/shard_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "common/hex.h"
#include "server/checkpoint/checksum.h"

namespace paceline::server {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

constexpr std::string_view kShardMagic = "PACESHD1";
// No layout has more (common/params/layout.h).
constexpr std::int64_t kFloatsMax = std::int64_t{1} << 40;

// As they lie in the file: without gaps.
struct Fields {
  char magic[8];
  std::uint64_t layout_hash, fingerprint, generation;
  std::int64_t version, revision, decisions, steps, begin, end;
  std::uint32_t shard, sections;
  std::uint64_t checksum;
};
static_assert(sizeof(Fields) == ShardHeader::kBytes);
constexpr std::size_t kCheckedBytes = ShardHeader::kBytes - sizeof(std::uint64_t);

Status check_numbers(const Fields& fields) {
  const auto refuse = [](const std::string& what, std::int64_t got, const std::string& expected) {
    return data_loss("its header says " + what + " " + std::to_string(got) + ", expected " + expected);
  };
  if (fields.generation == 0) return refuse("generation", 0, "1 or more");
  if (fields.version < 0) return refuse("version", fields.version, "0 or more");
  if (fields.revision < 0) return refuse("revision", fields.revision, "0 or more");
  if (fields.decisions < 0) return refuse("decisions", fields.decisions, "0 or more");
  if (fields.steps < 0) return refuse("steps of the optimizer", fields.steps, "0 or more");
  if (fields.begin < 0 || fields.begin > fields.end || fields.end > kFloatsMax) {
    return data_loss("its header says floats [" + std::to_string(fields.begin) + ", " +
                     std::to_string(fields.end) + "), expected a range within " + std::to_string(kFloatsMax));
  }
  constexpr std::uint32_t kAll = ShardHeader::kFirst | ShardHeader::kSecond | ShardHeader::kMeanSquare;
  if ((fields.sections & ~kAll) != 0) return refuse("sections", fields.sections, "bits 0, 1 and 2 at most");
  return Status::ok();
}

Status mismatch(const std::string& what, const std::string& got, const std::string& expected) {
  return invalid_argument(what + " " + got + ", expected " + expected);
}

std::string range_text(Range range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

}  // namespace

ShardHeader ShardHeader::of(const ShardFileOwner& owner, const ShardImage& image) {
  ShardHeader header{owner, image.version, image.revision, image.decisions, image.optimizer.steps, 0};
  if (image.optimizer.first.size() > 0) header.sections |= kFirst;
  if (image.optimizer.second.size() > 0) header.sections |= kSecond;
  if (image.mean_square.size() > 0) header.sections |= kMeanSquare;
  return header;
}

std::string ShardHeader::bytes() const {
  Fields fields{};
  std::copy(kShardMagic.begin(), kShardMagic.end(), fields.magic);
  fields.layout_hash = owner.layout_hash;
  fields.fingerprint = owner.fingerprint;
  fields.generation = owner.generation;
  fields.version = version.value;
  fields.revision = revision.value;
  fields.decisions = decisions;
  fields.steps = steps;
  fields.begin = owner.range.begin;
  fields.end = owner.range.end;
  fields.shard = owner.shard.value;
  fields.sections = sections;
  fields.checksum = checksum(std::as_bytes(std::span(&fields, 1)).first(kCheckedBytes));
  return {reinterpret_cast<const char*>(&fields), sizeof fields};
}

Result<ShardHeader> ShardHeader::parse(std::span<const std::byte> bytes) {
  Fields fields{};
  std::memcpy(&fields, bytes.data(), std::min(bytes.size(), sizeof fields));
  const std::size_t of_magic = std::min(bytes.size(), kShardMagic.size());
  if (std::string_view(fields.magic, of_magic) != kShardMagic.substr(0, of_magic)) {
    return invalid_argument("not a shard's checkpoint: it does not begin with " + std::string(kShardMagic));
  }
  if (bytes.size() < sizeof fields) {
    return data_loss("truncated: " + std::to_string(bytes.size()) + " bytes, its header alone has " +
                     std::to_string(sizeof fields));
  }
  const std::uint64_t computed = checksum(bytes.first(kCheckedBytes));
  if (computed != fields.checksum) {
    return data_loss("corrupted: the checksum of its header is " + hex(computed) + ", expected " +
                     hex(fields.checksum));
  }
  PACELINE_RETURN_IF_ERROR(check_numbers(fields));
  ShardHeader header;
  header.owner = {fields.layout_hash,
                  fields.fingerprint,
                  fields.generation,
                  ShardId(fields.shard),
                  {fields.begin, fields.end}};
  header.version = Version(fields.version);
  header.revision = Revision(fields.revision);
  header.decisions = fields.decisions;
  header.steps = fields.steps;
  header.sections = fields.sections;
  return header;
}

Status ShardHeader::check(const ShardFileWanted& wanted) const {
  if (owner.fingerprint != wanted.fingerprint) {
    return mismatch("configuration fingerprint", hex(owner.fingerprint),
                    hex(wanted.fingerprint) + ": it is of a run with another configuration");
  }
  if (wanted.layout_hash && owner.layout_hash != *wanted.layout_hash) {
    return mismatch("layout hash", hex(owner.layout_hash), hex(*wanted.layout_hash));
  }
  if (owner.shard != wanted.shard) return mismatch("shard", to_string(owner.shard), to_string(wanted.shard));
  if (wanted.range && owner.range != *wanted.range) {
    return mismatch("floats", range_text(owner.range), range_text(*wanted.range));
  }
  const CheckpointId id{owner.generation, version};
  return id == wanted.id ? Status::ok() : mismatch("it holds", to_string(id), to_string(wanted.id));
}

std::uint64_t ShardHeader::section_count() const {
  return 1 + static_cast<std::uint64_t>(std::popcount(sections));
}

std::uint64_t ShardHeader::file_bytes() const {
  const std::int64_t floats = owner.range.size();
  const std::int64_t chunks = (floats + kChunkFloats - 1) / kChunkFloats;
  const auto section = static_cast<std::uint64_t>(floats) * sizeof(float) +
                       static_cast<std::uint64_t>(chunks) * sizeof(std::uint64_t);
  return kBytes + section_count() * section;
}

}  // namespace paceline::server
