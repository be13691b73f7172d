// Throws bytes at the readers of a checkpoint: whatever a disk gives back, a shard's file and a manifest are
// read as they were written or refused with a reason. With a sanitizer build this also shows that nothing is
// read or written out of bounds.
//
// As a test: correct files, mutated by a seeded generator; a failure prints the round, which reproduces it.
// Some get correct checksums again, so that what lies after them is reached. With PACELINE_FUZZER (clang):
// the same property under libFuzzer.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "server/checkpoint/checksum.h"
#include "server/checkpoint/shard_header.h"
#include "tests/fuzz/corpus.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/mutate.h"
#include "tests/unit/checkpoint_fixture.h"

namespace paceline::server {
namespace {

using testing::MemoryFile;

[[noreturn]] void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "checkpoint fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

// It says which file, and what it is against.
void check_refusal(const Status& status, const MemoryFile& file) {
  if (status.code() != StatusCode::kDataLoss && status.code() != StatusCode::kInvalidArgument) {
    fail("wrong code", status.message());
  }
  if (status.message().find(file.path().string()) == std::string::npos)
    fail("no file named", status.message());
}

constexpr std::int64_t kFloats = 7;

// Whether a shard's file was accepted.
bool check_shard(std::string_view bytes) {
  const MemoryFile file(bytes);
  ShardFileWanted wanted = wanted_of(kFloats);
  wanted.range.reset();  // so that the file decides how much memory is taken
  const auto verified = verify_shard_file(file.path(), wanted);
  const auto read = read_shard_file(file.path(), wanted, 4);
  if (verified.status().message() != read.status().message()) fail("two opinions", read.status().message());
  if (!read.is_ok()) {
    check_refusal(read.status(), file);
    return false;
  }
  if (read->info.digest.bytes != bytes.size())
    fail("accepted with another size", std::to_string(bytes.size()));
  const ShardHeader header = ShardHeader::of(read->info.owner, read->image);
  if (header.owner.range.size() > 0 && header.bytes() != bytes.substr(0, ShardHeader::kBytes)) {
    fail("changed on the way", "its header");
  }
  return true;
}

// Whether a manifest was accepted.
bool check_manifest(std::string_view bytes) {
  const MemoryFile file(bytes);
  const auto read = read_manifest(file.path(), {1, Version(118)}, kTestFingerprint);
  if (!read.is_ok()) check_refusal(read.status(), file);
  return read.is_ok();
}

// The checksum over bytes [0, at), at `at`, made right again.
void seal(std::string& bytes, std::size_t at) {
  if (bytes.size() < at + sizeof(std::uint64_t)) return;
  const std::uint64_t sum = checksum(std::as_bytes(std::span(bytes).first(at)));
  std::memcpy(bytes.data() + at, &sum, sizeof sum);
}
// The header's, and where the file is as long as it says those of all chunks.
void seal_shard(std::string& bytes) {
  constexpr std::size_t kSum = sizeof(std::uint64_t);
  seal(bytes, ShardHeader::kBytes - kSum);
  const auto whole = std::as_bytes(std::span(bytes));
  const auto header = ShardHeader::parse(whole.first(std::min(whole.size(), ShardHeader::kBytes)));
  if (!header.is_ok() || header->file_bytes() != bytes.size()) return;
  std::uint64_t seed = 0;
  std::memcpy(&seed, bytes.data() + ShardHeader::kBytes - kSum, kSum);
  const std::int64_t size = header->owner.range.size();
  std::size_t begin = ShardHeader::kBytes;
  for (std::uint64_t section = 0; section < header->section_count(); ++section) {
    for (std::int64_t at = 0; at < size; at += kChunkFloats) {
      const std::size_t length = static_cast<std::size_t>(std::min(kChunkFloats, size - at)) * sizeof(float);
      const std::uint64_t sum = checksum(whole.subspan(begin, length), seed++);
      std::memcpy(bytes.data() + begin + length, &sum, kSum);
      begin += length + kSum;
    }
  }
}
void seal_manifest(std::string& bytes) {
  if (bytes.size() >= sizeof(std::uint64_t)) seal(bytes, bytes.size() - sizeof(std::uint64_t));
}

#ifndef PACELINE_LIBFUZZER
template <typename Write>
std::string written_by(const Write& write) {
  char name[] = "/tmp/paceline-checkpoint-fuzz-XXXXXX";
  if (::mkdtemp(name) == nullptr) fail("no temporary folder", name);
  const std::filesystem::path file = std::filesystem::path(name) / "file";
  write(file);
  std::string bytes = bytes_of(file);
  std::filesystem::remove_all(name);
  return bytes;
}

std::string some_shard(std::int64_t floats) {
  return written_by([&](const std::filesystem::path& file) {
    const auto written = write_shard_file(file, owner_of(floats), image_of(floats));
    if (!written.is_ok()) fail("cannot write", written.status().message());
  });
}

std::string some_manifest() {
  Manifest manifest;
  manifest.id = {1, Version(118)};
  manifest.fingerprint = kTestFingerprint;
  manifest.shards = {{208, 0xabc}, {208, 0xdef}};
  manifest.engine = "some bytes";
  return written_by([&](const std::filesystem::path& file) {
    const Status status = write_manifest(file, manifest);
    if (!status.is_ok()) fail("cannot write", status.message());
  });
}

// What a kind of file is thrown at.
struct Target {
  const char* name;
  std::string good;
  bool (*check)(std::string_view);
  void (*seal)(std::string&);
};

int run(std::uint64_t rounds) {
  const Target targets[] = {{"shard", some_shard(kFloats), check_shard, seal_shard},
                            {"empty shard", some_shard(0), check_shard, seal_shard},
                            {"manifest", some_manifest(), check_manifest, seal_manifest}};
  int bad = 0;
  for (const Target& target : targets) {
    if (!target.check(target.good)) fail(target.name, "what was written is refused");
    std::uint64_t accepted = 0;
    std::uint64_t sealed = 0;
    for (std::uint64_t round = 0; round < rounds / std::size(targets); ++round) {
      CounterRandom random(7, Stream::kTest, round);
      std::string bytes = target.good;
      testing::mutate(bytes, random);
      const bool with_seal = random.next_below(2) == 0;
      if (with_seal) target.seal(bytes);
      if (!target.check(bytes)) continue;
      if (!with_seal) ++accepted;
      if (with_seal && bytes != target.good) ++sealed;
      if (!with_seal && bytes != target.good) {
        std::fprintf(stderr, "checkpoint fuzz: %s, round %llu: accepted, but not what was written\n",
                     target.name, static_cast<unsigned long long>(round));
        ++bad;
      }
    }
    std::printf("checkpoint fuzz: %s: %llu unchanged and accepted, %llu changed, with checksums made right\n",
                target.name, static_cast<unsigned long long>(accepted),
                static_cast<unsigned long long>(sealed));
    // Changed ones must get through now and then, or the mutations reach nothing after the checksums.
    if (sealed == 0) ++bad;
  }
  return bad == 0 ? 0 : 1;
}
#endif

}  // namespace
}  // namespace paceline::server

#ifdef PACELINE_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline::server;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check_shard(bytes);
  check_manifest(bytes);
  std::string manifest = bytes;
  seal_shard(bytes);
  check_shard(bytes);
  seal_manifest(manifest);
  check_manifest(manifest);
  return 0;
}
#else
int main(int argc, char** argv) {
  using namespace paceline::server;
  if (const char* folder = paceline::testing::corpus_folder(argc, argv)) {
    return paceline::testing::write_corpus(folder, {some_shard(kFloats), some_shard(0), some_manifest()});
  }
  return run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200'000);
}
#endif
