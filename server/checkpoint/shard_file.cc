// Chunk by chunk, through one buffer: how the vectors after the header are written and read.
#include "server/checkpoint/shard_file.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/files/atomic_file.h"
#include "common/files/input_file.h"
#include "common/hex.h"
#include "server/checkpoint/checksum.h"
#include "server/checkpoint/shard_header.h"

namespace paceline::server {
namespace {

constexpr std::size_t kSumFloats = sizeof(std::uint64_t) / sizeof(float);

// The checksums of a file: of each chunk, seeded with its place, and of all of them.
class ChunkSums {
 public:
  explicit ChunkSums(std::uint64_t header) : seed_(header), all_(header) {}
  // Of the next chunk.
  std::uint64_t next(std::span<const float> floats) {
    const std::uint64_t sum = checksum(std::as_bytes(floats), seed_ + chunks_++);
    all_ = checksum(std::as_bytes(std::span(&sum, 1)), all_);
    return sum;
  }
  std::uint64_t chunks() const { return chunks_; }
  std::uint64_t all() const { return all_; }

 private:
  std::uint64_t seed_;
  std::uint64_t all_;
  std::uint64_t chunks_ = 0;
};

ChunkSums sums_after(std::string_view header) {
  std::uint64_t sum = 0;
  std::memcpy(&sum, header.data() + header.size() - sizeof sum, sizeof sum);
  return ChunkSums(sum);
}

// A chunk's floats and its checksum after them.
std::vector<float> chunk_buffer(Range range) {
  return std::vector<float>(static_cast<std::size_t>(std::min(range.size(), kChunkFloats)) + kSumFloats);
}

// Nobody copies a block for our sake any more.
void let_go(BlockRange& section, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin / section.block_floats(); i < section.block_count(); ++i) {
    if (section.elements(i).end > end) return;
    section.replace(i, BlockRef());
  }
}

Status write_section(AtomicFile& file, BlockRange& section, std::vector<float>& buffer, ChunkSums& sums) {
  for (std::int64_t at = 0; at < section.size(); at += kChunkFloats) {
    const std::int64_t end = std::min(at + kChunkFloats, section.size());
    const auto floats = static_cast<std::size_t>(end - at);
    section.copy_to(at, std::span(buffer).first(floats));
    let_go(section, at, end);
    const std::uint64_t sum = sums.next(std::span(buffer).first(floats));
    std::memcpy(buffer.data() + floats, &sum, sizeof sum);
    PACELINE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(buffer).first(floats + kSumFloats))));
  }
  return Status::ok();
}

// A file that is read from its begin to its end: its header first, which is checked against everything that
// is known of it.
class Reading {
 public:
  static Result<Reading> begin(const std::filesystem::path& path, const ShardFileWanted& wanted) {
    PACELINE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
    std::string head(ShardHeader::kBytes, '\0');
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got, file.read(std::as_writable_bytes(std::span(head))));
    Result<ShardHeader> header = ShardHeader::parse(std::as_bytes(std::span(head)).first(got));
    Status status = header.status();
    if (status.is_ok()) status = header->check(wanted);
    if (status.is_ok()) status = check_size(file.size(), header->file_bytes(), "its header says");
    if (status.is_ok() && wanted.digest) {
      status = check_size(file.size(), wanted.digest->bytes, "its manifest says");
    }
    if (!status.is_ok()) return std::move(status).with_context(path.string());
    return Reading(path, std::move(file), *header, sums_after(head));
  }

  const ShardHeader& header() const { return header_; }

  // All vectors, chunk by chunk: take(section, begin, floats).
  using Take = std::function<void(std::uint64_t, std::int64_t, std::span<const float>)>;
  Status read(const Take& take) {
    std::vector<float> buffer = chunk_buffer(header_.owner.range);
    for (std::uint64_t section = 0; section < header_.section_count(); ++section) {
      for (std::int64_t at = 0; at < header_.owner.range.size(); at += kChunkFloats) {
        const std::int64_t end = std::min(at + kChunkFloats, header_.owner.range.size());
        PACELINE_RETURN_IF_ERROR(read_chunk(buffer, static_cast<std::size_t>(end - at)));
        take(section, at, std::span(buffer).first(static_cast<std::size_t>(end - at)));
      }
    }
    return Status::ok();
  }

  // Of what has been read.
  FileDigest digest() const { return {header_.file_bytes(), sums_.all()}; }

  Status check(const std::optional<FileDigest>& wanted) const {
    if (!wanted || digest() == *wanted) return Status::ok();
    return data_loss(path_.string() + ": checksum " + hex(digest().checksum) + ", its manifest says " +
                     hex(wanted->checksum));
  }

 private:
  Reading(std::filesystem::path path, InputFile file, const ShardHeader& header, ChunkSums sums)
      : path_(std::move(path)), file_(std::move(file)), header_(header), sums_(sums) {}

  static Status check_size(std::uint64_t got, std::uint64_t expected, const std::string& who) {
    if (got == expected) return Status::ok();
    return data_loss((got < expected ? "truncated: " : "too long: ") + std::to_string(got) + " bytes, " +
                     who + " " + std::to_string(expected));
  }

  Status read_chunk(std::vector<float>& buffer, std::size_t floats) {
    const auto whole = std::span(buffer).first(floats + kSumFloats);
    PACELINE_ASSIGN_OR_RETURN(const std::size_t got, file_.read(std::as_writable_bytes(whole)));
    const std::string what = path_.string() + ": chunk " + std::to_string(sums_.chunks());
    if (got != whole.size_bytes()) {
      return data_loss(what + " is truncated: " + std::to_string(got) + " bytes, expected " +
                       std::to_string(whole.size_bytes()));
    }
    std::uint64_t expected = 0;
    std::memcpy(&expected, buffer.data() + floats, sizeof expected);
    const std::uint64_t computed = sums_.next(whole.first(floats));
    if (computed == expected) return Status::ok();
    return data_loss(what + " is corrupted: checksum " + hex(computed) + ", expected " + hex(expected));
  }

  std::filesystem::path path_;
  InputFile file_;
  ShardHeader header_;
  ChunkSums sums_;
};

ShardFileInfo info_of(const Reading& reading) {
  const ShardHeader& header = reading.header();
  return {header.owner, header.version, header.revision, header.decisions, reading.digest()};
}

}  // namespace

Result<FileDigest> write_shard_file(const std::filesystem::path& path, const ShardFileOwner& owner,
                                    ShardImage&& image) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  return write_shard_file(std::move(file), owner, std::move(image));
}

Result<FileDigest> write_shard_file(AtomicFile file, const ShardFileOwner& owner, ShardImage&& image) {
  const ShardHeader header = ShardHeader::of(owner, image);
  const std::string head = header.bytes();
  PACELINE_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(head))));
  ChunkSums sums = sums_after(head);
  std::vector<float> buffer = chunk_buffer(owner.range);
  for (BlockRange* section :
       {&image.parameters, &image.optimizer.first, &image.optimizer.second, &image.mean_square}) {
    PACELINE_ASSERT(section->size() == owner.range.size() || section->size() == 0,
                    std::to_string(section->size()) + " floats in a section of shard " +
                        to_string(owner.shard) + ", its range has " + std::to_string(owner.range.size()));
    PACELINE_RETURN_IF_ERROR(write_section(file, *section, buffer, sums));
  }
  PACELINE_RETURN_IF_ERROR(file.commit());
  return FileDigest{header.file_bytes(), sums.all()};
}

Result<ShardFileInfo> verify_shard_file(const std::filesystem::path& path, const ShardFileWanted& wanted) {
  PACELINE_ASSIGN_OR_RETURN(Reading reading, Reading::begin(path, wanted));
  PACELINE_RETURN_IF_ERROR(reading.read([](std::uint64_t, std::int64_t, std::span<const float>) {}));
  PACELINE_RETURN_IF_ERROR(reading.check(wanted.digest));
  return info_of(reading);
}

Result<ShardFile> read_shard_file(const std::filesystem::path& path, const ShardFileWanted& wanted,
                                  std::int64_t block_floats) {
  PACELINE_ASSIGN_OR_RETURN(Reading reading, Reading::begin(path, wanted));
  const ShardHeader& header = reading.header();
  ShardImage image{header.version, header.revision, header.decisions, {}, {header.steps, {}, {}}, {}};
  // In the file's order.
  std::vector<BlockRange*> sections = {&image.parameters};
  if (header.sections & ShardHeader::kFirst) sections.push_back(&image.optimizer.first);
  if (header.sections & ShardHeader::kSecond) sections.push_back(&image.optimizer.second);
  if (header.sections & ShardHeader::kMeanSquare) sections.push_back(&image.mean_square);
  BlockPool pool(block_floats, /*idle_max=*/0);
  for (BlockRange* const section : sections) *section = BlockRange(pool, header.owner.range.size());
  PACELINE_RETURN_IF_ERROR(
      reading.read([&](std::uint64_t section, std::int64_t at, std::span<const float> floats) {
        sections[section]->copy_from(at, floats, pool);
      }));
  PACELINE_RETURN_IF_ERROR(reading.check(wanted.digest));
  return ShardFile{info_of(reading), std::move(image)};
}

}  // namespace paceline::server
