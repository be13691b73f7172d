// The file: a header, for each picture where its bytes lie and how many they are, and the bytes. Nothing in it
// is ever moved or changed once it can be found, so nobody locks to read.
#include "worker/images/encoded_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <new>
#include <random>
#include <system_error>
#include <utility>

#include "common/assert.h"
#include "common/files/descriptor.h"
#include "common/hex.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "/dev/shm";
constexpr std::uint64_t kMark = 0x31676D49'6C636150;  // "PaclImg1"

struct CacheHeader {
  std::uint64_t mark;
  std::int64_t images;
  std::uint64_t end;                // of the file
  std::atomic<std::uint64_t> used;  // offset after the last bytes that were given away
};
// `at`: 0 nothing, kTaken somebody is writing it, else where it begins; `size` is there before.
struct FilePlace {
  std::atomic<std::uint64_t> at;
  std::atomic<std::uint64_t> size;
};
constexpr std::uint64_t kTaken = 1;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // between processes

std::uint64_t begin_of_bytes(std::int64_t images) {
  return sizeof(CacheHeader) + static_cast<std::uint64_t>(images) * sizeof(FilePlace);
}

std::string cache_prefix() { return "paceline-images-" + std::to_string(::getuid()) + "-"; }

// Of no other process, thread or container that shares /dev/shm: process numbers are not enough.
std::string unique_ending() {
  std::random_device random;
  return ".made-by-" + std::to_string(::getpid()) + "-" + hex((std::uint64_t{random()} << 32) | random());
}

// Whoever may write it could make us read what he likes.
Status check_owner(int fd, const fs::path& path) {
  struct stat about{};
  if (::fstat(fd, &about) != 0) return file_error("look at", path, errno);
  if (S_ISREG(about.st_mode) && about.st_uid == ::geteuid() && (about.st_mode & 077) == 0)
    return Status::ok();
  return unavailable(path.string() + " is not this user's alone, expected a file of mode 0600");
}

bool still_has_its_name(int fd) {
  struct stat about{};
  return ::fstat(fd, &about) == 0 && about.st_nlink > 0;
}

// Caches that nobody uses: each user holds a shared lock.
void remove_left_over(const fs::path& but) {
  std::error_code error;
  for (fs::directory_iterator it(kFolder, error), end; !error && it != end; it.increment(error)) {
    if (it->path() == but || !it->path().filename().string().starts_with(cache_prefix())) continue;
    const Descriptor file(::open(it->path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(it->path().c_str());
  }
}

Status allocate(int fd, std::uint64_t at, std::uint64_t size, const fs::path& path) {
  const int error = ::posix_fallocate(fd, static_cast<off_t>(at), static_cast<off_t>(size));
  return error == 0 ? Status::ok() : file_error("enlarge", path, error);
}

// How many bytes of files a new cache takes.
Result<std::uint64_t> room_for(std::int64_t bytes_max) {
  struct statvfs about{};
  if (::statvfs(kFolder, &about) != 0) return file_error("look at", kFolder, errno);
  const std::uint64_t free = std::uint64_t{about.f_bavail} * about.f_frsize;
  return std::min(static_cast<std::uint64_t>(bytes_max), free / 2);
}

}  // namespace

struct EncodedCache::Shared {
  fs::path path;
  Descriptor file{-1};
  std::uint8_t* memory = nullptr;
  std::uint64_t size = 0;

  Shared(fs::path where, Descriptor open) : path(std::move(where)), file(std::move(open)) {}
  ~Shared() {
    if (memory != nullptr) ::munmap(memory, size);
    // The last one: nobody else holds the lock. A name that is another file's by now is not ours to remove.
    if (file.is_open() && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && still_has_its_name(file.get())) {
      ::unlink(path.c_str());
    }
  }
  CacheHeader& header() const { return *std::launder(reinterpret_cast<CacheHeader*>(memory)); }
  FilePlace& place(std::int64_t image) const {
    return std::launder(reinterpret_cast<FilePlace*>(memory + sizeof(CacheHeader)))[image];
  }

  // An empty one.
  Status fill(std::int64_t images, std::int64_t bytes_max) {
    PACELINE_ASSIGN_OR_RETURN(const std::uint64_t room, room_for(bytes_max));
    const std::uint64_t begin = begin_of_bytes(images);
    PACELINE_RETURN_IF_ERROR(allocate(file.get(), 0, begin, path));
    if (::ftruncate(file.get(), static_cast<off_t>(begin + room)) != 0)
      return file_error("enlarge", path, errno);
    PACELINE_RETURN_IF_ERROR(map());
    ::new (memory) CacheHeader{kMark, images, begin + room, {begin}};
    return Status::ok();
  }
  Status map() {
    struct stat about{};
    if (::fstat(file.get(), &about) != 0) return file_error("look at", path, errno);
    size = static_cast<std::uint64_t>(about.st_size);
    void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (mapped == MAP_FAILED) return file_error("map", path, errno);
    memory = static_cast<std::uint8_t*>(mapped);
    return Status::ok();
  }
  // One that somebody else has filled.
  Status check(std::int64_t images) const {
    if (size >= begin_of_bytes(images) && header().mark == kMark && header().images == images &&
        header().end == size) {
      return Status::ok();
    }
    return unavailable(path.string() + " is no cache of " + std::to_string(images) + " pictures");
  }
};

EncodedCache::EncodedCache(std::unique_ptr<Shared> shared) : shared_(std::move(shared)) {}
EncodedCache::~EncodedCache() = default;

// What lies under the name is whole: it is filled under another one.
Result<std::shared_ptr<EncodedCache>> EncodedCache::open(std::uint64_t key, std::int64_t images,
                                                         std::int64_t bytes_max) {
  const fs::path path = fs::path(kFolder) / (cache_prefix() + hex(key) + "-" + std::to_string(bytes_max));
  const fs::path unfinished = path.string() + unique_ending();
  remove_left_over(path);
  constexpr int kTries = 100;  // the last user of before may be removing it
  for (int i = 0; i < kTries; ++i) {
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
    auto shared = std::make_unique<Shared>(path, Descriptor(::open(path.c_str(), kFlags)));
    if (!shared->file.is_open() && errno != ENOENT) return file_error("open", path, errno);
    if (!shared->file.is_open()) {
      shared = std::make_unique<Shared>(
          unfinished, Descriptor(::open(unfinished.c_str(), kFlags | O_CREAT | O_EXCL, 0600)));
      if (!shared->file.is_open()) return file_error("make", unfinished, errno);
      if (::flock(shared->file.get(), LOCK_SH) != 0) return file_error("lock", unfinished, errno);
      const Status filled = shared->fill(images, bytes_max);
      const bool is_first = filled.is_ok() && ::link(unfinished.c_str(), path.c_str()) == 0;
      ::unlink(unfinished.c_str());
      PACELINE_RETURN_IF_ERROR(filled);
      if (!is_first) continue;  // somebody was faster
      shared->path = path;
    } else {
      PACELINE_RETURN_IF_ERROR(check_owner(shared->file.get(), path));
      if (::flock(shared->file.get(), LOCK_SH) != 0) return file_error("lock", path, errno);
      if (!still_has_its_name(shared->file.get())) continue;
      PACELINE_RETURN_IF_ERROR(shared->map());
      PACELINE_RETURN_IF_ERROR(shared->check(images));
    }
    return std::shared_ptr<EncodedCache>(new EncodedCache(std::move(shared)));
  }
  return unavailable(path.string() + " is removed again and again");
}

std::optional<std::span<const std::uint8_t>> EncodedCache::find(std::int64_t image) const {
  const FilePlace& place = shared_->place(image);
  const std::uint64_t at = place.at.load(std::memory_order_acquire);
  if (at <= kTaken) return std::nullopt;
  const std::uint64_t bytes = place.size.load(std::memory_order_relaxed);
  const std::uint64_t begin = begin_of_bytes(shared_->header().images);
  if (at < begin || at > shared_->size || bytes > shared_->size - at) return std::nullopt;
  return std::span<const std::uint8_t>(shared_->memory + at, bytes);
}

void EncodedCache::keep(std::int64_t image, std::span<const std::uint8_t> file) {
  FilePlace& place = shared_->place(image);
  if (place.at.load(std::memory_order_relaxed) != 0) return;
  CacheHeader& header = shared_->header();
  std::uint64_t at = header.used.load(std::memory_order_relaxed);
  do {
    if (file.empty() || at > shared_->size || file.size() > shared_->size - at) return;
  } while (!header.used.compare_exchange_weak(at, at + file.size(), std::memory_order_relaxed));
  std::uint64_t nothing = 0;
  // Of two that read it at the same time one's room is lost, which is seldom.
  if (!place.at.compare_exchange_strong(nothing, kTaken, std::memory_order_relaxed)) return;
  // Writing into a hole of a full /dev/shm would kill the process. The picture then stays taken, and is read
  // from its file.
  if (!allocate(shared_->file.get(), at, file.size(), shared_->path).is_ok()) return;
  std::memcpy(shared_->memory + at, file.data(), file.size());
  place.size.store(file.size(), std::memory_order_relaxed);
  place.at.store(at, std::memory_order_release);
}

std::int64_t EncodedCache::bytes() const {
  const CacheHeader& header = shared_->header();
  return static_cast<std::int64_t>(header.used.load() - begin_of_bytes(header.images));
}

}  // namespace paceline
