// Segments: what is mapped and what is refused, what whoever maps one cannot do, and how its memory is given
// out and taken back.
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "tests/unit/pins.h"
#include "tests/unit/segments.h"

namespace paceline::wire {

TEST_CASE("neither files nor mappings are left behind") {
  const auto files = files_open();
  const auto mapped = segments_mapped();
  {
    const auto memory = segment();
    CHECK(files_open() == files + 1);
    const auto other = MappedSegment::map(memory->ref(), kSegmentBytes);
    REQUIRE(other.is_ok());
    CHECK((files_open() == files + 2 && segments_mapped() == mapped + 2));
    SegmentRef wrong = memory->ref();
    wrong.token_high ^= 1;
    CHECK_FALSE(MappedSegment::map(wrong, kSegmentBytes).is_ok());
    CHECK((files_open() == files + 2 && segments_mapped() == mapped + 2));
  }
  CHECK((files_open() == files && segments_mapped() == mapped));
}

TEST_CASE("only a whole, sealed segment with the right token is mapped") {
  const auto memory = segment();
  SegmentRef ref = memory->ref();
  CHECK(MappedSegment::map(ref, kSegmentBytes).is_ok());
  const auto refusal = [](const SegmentRef& wrong) {
    return MappedSegment::map(wrong, kSegmentBytes).status().message();
  };
  SECTION("another process of that number") {
    ref.token_low ^= 1;
    CHECK_THAT(refusal(ref), Catch::Contains("it belongs to another process of that number"));
  }
  SECTION("shorter than announced") {
    ref.bytes += 1;
    CHECK_THAT(MappedSegment::map(ref, kSegmentBytes + 1).status().message(),
               Catch::Contains("bytes, expected " + std::to_string(ref.bytes)));
  }
  SECTION("another file") {
    ref.descriptor = static_cast<std::uint32_t>(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
    CHECK_THAT(refusal(ref), Catch::Contains("it is another file"));
    ::close(static_cast<int>(ref.descriptor));
  }
  SECTION("of a process that is gone") {
    const pid_t gone = child([] {});
    REQUIRE(::waitpid(gone, nullptr, 0) == gone);
    ref.process = static_cast<std::uint32_t>(gone);
    CHECK_THAT(refusal(ref), Catch::Contains("it cannot be read"));
  }
  SECTION("nothing") {
    ref.descriptor = 1'000'000;
    CHECK_THAT(refusal(ref), Catch::Contains("it cannot be read"));
  }
  SECTION("larger than agreed") {
    CHECK_THAT(MappedSegment::map(ref, kSegmentBytes - 64).status().message(),
               Catch::Contains("it has 4194368 bytes, expected at most 4194304"));
    ref.bytes = std::int64_t{1} << 60;
    CHECK_THAT(refusal(ref), Catch::Contains("it has 1152921504606846976 bytes, expected at most 4194368"));
  }
  SECTION("in huge pages of their own kind") {
    const int file = ::memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (file < 0 || ::ftruncate(file, kSegmentBytes) != 0) return;  // the system has none
    ref.descriptor = static_cast<std::uint32_t>(file);
    CHECK_THAT(refusal(ref), Catch::Contains("it is no shared memory"));
    ::close(file);
  }
  SECTION("that may lose pages") {
    const int file = sealed(F_SEAL_SHRINK | F_SEAL_GROW, ref.bytes);
    ref.descriptor = static_cast<std::uint32_t>(file);
    CHECK_THAT(refusal(ref), Catch::Contains("it may lose pages"));
    ::close(file);
  }
  SECTION("without a page") {
    const int file = sealed(F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE, ref.bytes);
    ref.descriptor = static_cast<std::uint32_t>(file);
    CHECK_THAT(refusal(ref), Catch::Contains("it is empty"));
    ::close(file);
  }
  SECTION("not sealed") {
    const int file = ::memfd_create("paceline", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(file, ref.bytes) == 0);
    ref.descriptor = static_cast<std::uint32_t>(file);
    CHECK_THAT(refusal(ref), Catch::Contains("it may shrink"));
    ::close(file);
  }
}

TEST_CASE("a segment can neither be written nor cut by whoever opens it") {
  const auto memory = segment();
  const std::string path = "/proc/self/fd/" + std::to_string(memory->ref().descriptor);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  CHECK(::ftruncate(file, 0) != 0);
  CHECK(::pwrite(file, "x", 1, 0) != 1);
  CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  ::close(file);
}

TEST_CASE("a segment gives out memory, takes it back, joins what is free, and goes to the heap when full") {
  const auto memory = segment(4096);
  const auto inside = [&](void* p, std::size_t bytes) {
    return memory->offset_of(static_cast<std::byte*>(p), bytes).has_value();
  };
  void* const a = memory->allocate(1024, 64);
  void* const b = memory->allocate(1000, 64);
  void* const c = memory->allocate(2048, 64);
  CHECK((inside(a, 1024) && inside(b, 1000) && inside(c, 2048)));
  void* const heap = memory->allocate(64, 64);
  CHECK_FALSE(inside(heap, 64));
  memory->deallocate(a, 1024, 64);
  memory->deallocate(c, 2048, 64);
  memory->deallocate(b, 1000, 64);
  memory->deallocate(heap, 64, 64);
  void* const all = memory->allocate(4096, 64);
  CHECK(inside(all, 4096));
  CHECK(all == a);
  memory->deallocate(all, 4096, 64);
}

TEST_CASE("a segment takes the pages that were handed out, and no more") {
  const auto memory = segment();
  const auto file = static_cast<int>(memory->ref().descriptor);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  CHECK(bytes_in_use(file) == page);
  void* const a = memory->allocate(1 << 20);
  CHECK(bytes_in_use(file) == (1 << 20) + page);
  memory->deallocate(a, 1 << 20);
  void* const b = memory->allocate(1 << 20);
  CHECK(b == a);
  CHECK(bytes_in_use(file) == (1 << 20) + page);
  memory->deallocate(b, 1 << 20);
}

TEST_CASE("a limit on file sizes is an error, not a signal") {
  const pid_t pid = child([] {
    const rlimit limit{1 << 20, 1 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto made = SharedSegment::create(2 << 20);
    ::_exit(made.is_ok() || made.status().message().find("files are limited to") == std::string::npos);
  });
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("a segment is pinned in whole pages up to its end, and once, however many threads read it first") {
  Pins pins;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  const auto memory = segment(page);  // and a line
  memory->deallocate(memory->allocate(page, 64), page, 64);
  {
    const auto mapped = MappedSegment::map(memory->ref(), page, pins.pin());
    REQUIRE(mapped.is_ok());
    CHECK(pins.asked.empty());
    std::vector<std::thread> readers;
    for (int i = 0; i < 4; ++i) {
      readers.emplace_back([&] {
        if (mapped.value()->has_pages_to(memory->ref().bytes))
          (void)mapped.value()->part(0, memory->ref().bytes);
      });
    }
    for (std::thread& reader : readers) reader.join();
    REQUIRE(pins.asked.size() == 1);
    CHECK(pins.asked[0].size() == 2 * static_cast<std::size_t>(page));
    CHECK(pins.asked[0].data() == mapped.value()->part(0, 1).data());
  }
  CHECK(pins.held == 0);
}

}  // namespace paceline::wire
