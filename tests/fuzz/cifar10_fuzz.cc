// Throws bytes at the reader of CIFAR-10's binary format: a file is whole records of known classes, and then
// the set has exactly those after what it had, or it is refused with a reason that names it, and the set is
// as it was. With a sanitizer build this also shows that nothing is read or written out of bounds.
//
// As a test: correct files, mutated by a seeded generator; a failure prints the round, which reproduces it.
// With PACELINE_FUZZER (clang): the same property under libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/rounds.h"
#include "worker/data/cifar10.h"

namespace paceline {
namespace {

constexpr auto kRecordBytes = static_cast<std::size_t>(kRecordSize);

// Thrown: the test adds the round, under libFuzzer it ends the program.
[[noreturn]] void fail(const std::string& what, const std::string& detail) {
  throw std::runtime_error(what + ": " + detail);
}

// What a set has before the file is read: one image that is to stay.
DataSet with_one_image() {
  DataSet set;
  set.labels.assign(1, 7);
  set.pixels.assign(static_cast<std::size_t>(kImageSize), 77);
  return set;
}

bool is_as_the_format_says(std::string_view bytes) {
  if (bytes.empty() || bytes.size() % kRecordBytes != 0) return false;
  for (std::size_t at = 0; at < bytes.size(); at += kRecordBytes) {
    if (static_cast<unsigned char>(bytes[at]) >= kClasses) return false;
  }
  return true;
}

void check_refusal(const Status& status, const testing::MemoryFile& file) {
  if (status.code() != StatusCode::kDataLoss) fail("wrong code", status.message());
  if (status.message().find(file.path().string()) == std::string::npos)
    fail("no file named", status.message());
}

void check_records(std::string_view bytes, const DataSet& set) {
  for (std::size_t i = 0; i < bytes.size() / kRecordBytes; ++i) {
    const std::string_view record = bytes.substr(i * kRecordBytes, kRecordBytes);
    const auto image = set.image(static_cast<std::int64_t>(i) + 1);
    const bool same = set.labels[i + 1] == static_cast<std::uint8_t>(record[0]) &&
                      std::equal(image.begin(), image.end(), record.begin() + 1,
                                 [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
    if (!same) fail("changed on the way", "record " + std::to_string(i));
  }
}

// Whether the file was accepted.
bool check(std::string_view bytes) {
  const testing::MemoryFile file(bytes);
  const DataSet before = with_one_image();
  DataSet set = before;
  const Status status = read_cifar10_file(file.path(), set);
  if (status.is_ok() != is_as_the_format_says(bytes)) fail("another opinion", status.message());
  const std::size_t images = set.labels.size();
  if (set.pixels.size() != images * static_cast<std::size_t>(kImageSize))
    fail("labels without images", std::to_string(images));
  if (images != 1 + (status.is_ok() ? bytes.size() / kRecordBytes : 0))
    fail("another number of images", std::to_string(images));
  const bool as_it_was = set.labels[0] == before.labels[0] &&
                         std::equal(before.pixels.begin(), before.pixels.end(), set.pixels.begin());
  if (!as_it_was) fail("what the set had has changed", status.message());
  if (!status.is_ok()) check_refusal(status, file);
  if (status.is_ok()) check_records(bytes, set);
  return status.is_ok();
}

#ifndef PACELINE_LIBFUZZER
std::string some_file(CounterRandom& random) {
  std::string bytes((1 + random.next_below(4)) * kRecordBytes, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next_below(256));
  for (std::size_t at = 0; at < bytes.size(); at += kRecordBytes)
    bytes[at] = static_cast<char>(random.next_below(kClasses));
  return bytes;
}

// Whether the file was accepted.
bool check_mutated(CounterRandom& random) {
  std::string bytes = some_file(random);
  const std::size_t size = bytes.size();
  testing::mutate(bytes, random);
  // Most mutations change the size, which is looked at first: half of the files get theirs back, and a label
  // now and then.
  if (random.next_below(2) == 0) bytes.resize(size, '\1');
  if (random.next_below(4) == 0 && bytes.size() > kRecordBytes)
    bytes[kRecordBytes] = static_cast<char>(random.next_below(256));
  return check(bytes);
}

int run(std::uint64_t rounds) {
  return testing::run_rounds("cifar10", 5, rounds, {.one_in_least = 10, .one_in_most = 2},
                             [](CounterRandom& random, std::uint64_t) { return check_mutated(random); });
}
#endif

}  // namespace
}  // namespace paceline

#ifdef PACELINE_LIBFUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace paceline;
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  // As many whole records as there are begun ones, so that small inputs reach what lies after the size.
  bytes.resize((bytes.size() + kRecordBytes - 1) / kRecordBytes * kRecordBytes);
  check(bytes);
  return 0;
}
#else
int main(int argc, char** argv) {
  return paceline::run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20'000);
}
#endif
