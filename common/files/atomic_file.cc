// Temporary file, fsync, rename, fsync of the folder: the order that survives a crash at every point.
#include "common/files/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "common/files/input_file.h"

namespace paceline {
namespace {

constexpr std::string_view kTemporaryEnd = ".tmp";

// How many names are tried before it is said that they are taken: in a container every process may have the
// number of the one before, whose temporaries are still there.
constexpr int kNamesTried = 100;

std::string temporary_begin(const std::filesystem::path& path) {
  return "." + path.filename().string() + ".";
}

// Beside the target (a rename must not cross file systems) and of its own for each writer.
std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  static std::atomic<unsigned> next{0};
  return path.parent_path() / (temporary_begin(path) + std::to_string(::getpid()) + "." +
                               std::to_string(next.fetch_add(1)) + std::string(kTemporaryEnd));
}

}  // namespace

Result<AtomicFile> AtomicFile::create(std::filesystem::path path) {
  for (int tried = 1;; ++tried) {
    std::filesystem::path temporary = temporary_beside(path);
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.is_open()) return AtomicFile(std::move(path), std::move(temporary), std::move(file));
    if (errno != EEXIST || tried == kNamesTried) return file_error("write", path, errno);
  }
}

AtomicFile::AtomicFile(std::filesystem::path path, std::filesystem::path temporary, Descriptor file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

// One that was moved from has no name any more.
AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return Status::ok();
}

Status AtomicFile::commit() {
  if (::fsync(file_.get()) != 0) return file_error("write", path_, errno);
  if (file_.close() != 0) return file_error("write", path_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return file_error("write", path_, errno);
  temporary_.clear();
  return sync_folder(path_.parent_path());  // without this the new name itself may be lost in a crash
}

bool is_temporary_of(const std::filesystem::path& file, const std::filesystem::path& path) {
  const std::string name = file.filename().string();
  return name.starts_with(temporary_begin(path)) && name.ends_with(kTemporaryEnd);
}

Status sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path name = folder.empty() ? "." : folder;
  const Descriptor handle(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!handle.is_open()) return file_error("sync", name, errno);
  if (::fsync(handle.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return Status::ok();
  return file_error("sync", name, errno);
}

void file_size_limit_is_an_error() { std::signal(SIGXFSZ, SIG_IGN); }

Status write_file_atomically(const std::filesystem::path& path,
                             std::span<const std::span<const std::byte>> pieces) {
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  for (const auto& piece : pieces) PACELINE_RETURN_IF_ERROR(file.write(piece));
  return file.commit();
}

Status write_file_atomically(const std::filesystem::path& path,
                             std::initializer_list<std::span<const std::byte>> pieces) {
  return write_file_atomically(path, std::span(pieces.begin(), pieces.size()));
}

Status write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  return write_file_atomically(path, {std::as_bytes(std::span(text))});
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  PACELINE_ASSIGN_OR_RETURN(InputFile file, InputFile::open(path));
  if (file.size() > bytes_max) {
    return resource_exhausted("cannot read " + path.string() + ": " + std::to_string(file.size()) +
                              " bytes, expected at most " + std::to_string(bytes_max));
  }
  std::string content(static_cast<std::size_t>(file.size()), '\0');
  PACELINE_ASSIGN_OR_RETURN(const std::size_t read, file.read(std::as_writable_bytes(std::span(content))));
  content.resize(read);  // it may have been shortened meanwhile
  return content;
}

}  // namespace paceline
