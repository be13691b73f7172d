#include "worker/images/folder_index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "common/files/atomic_file.h"
#include "worker/images/read_picture.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFirstLine = "paceline image index 2";
constexpr std::size_t kIndexBytesMax = std::size_t{4} << 30;

bool is_hidden(const fs::path& name) { return name.native().starts_with('.'); }

bool is_named_as_picture(const fs::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  static constexpr std::array kEndings = {".jpg", ".jpeg", ".jpe", ".jfif", ".png"};
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

Status cannot_list(const fs::path& folder, const std::error_code& error) {
  return unavailable("cannot list " + folder.string() + ": " + error.message());
}

// The entries of a folder by name, hidden ones left out.
Result<std::vector<fs::directory_entry>> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!is_hidden(it->path().filename())) entries.push_back(*it);
  }
  if (error) return cannot_list(folder, error);
  std::sort(entries.begin(), entries.end());
  return entries;
}

// With its length and date. A link that leads nowhere has the length -1: reading it says so.
IndexedFile as_it_lies(const fs::directory_entry& entry, std::string path) {
  std::error_code error;
  IndexedFile file{.path = std::move(path)};
  file.bytes = static_cast<std::int64_t>(entry.file_size(error));
  if (error) file.bytes = -1;
  file.modified = static_cast<std::int64_t>(entry.last_write_time(error).time_since_epoch().count());
  return file;
}

// Files of a class, at any depth; `depth` bounds what a link that leads back could do.
Status list_files(const fs::path& folder, const fs::path& relative, int depth, FolderIndex& index) {
  constexpr int kDepthMax = 16;
  if (depth > kDepthMax) return unavailable("folders in folders, more than 16 deep: " + relative.string());
  PACELINE_ASSIGN_OR_RETURN(const auto entries, entries_of(folder / relative));
  for (const fs::directory_entry& entry : entries) {
    const fs::path path = relative / entry.path().filename();
    std::error_code error;
    if (entry.is_directory(error)) {
      PACELINE_RETURN_IF_ERROR(list_files(folder, path, depth + 1, index));
      continue;
    }
    if (!is_named_as_picture(path)) {
      ++index.ignored;
      continue;
    }
    index.files.push_back(as_it_lies(entry, path.string()));
  }
  return Status::ok();
}

Result<FolderIndex> list_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return not_found("data folder '" + folder.string() +
                     "': not a directory, expected one with a folder for each class");
  }
  FolderIndex index;
  PACELINE_ASSIGN_OR_RETURN(const auto entries, entries_of(folder));
  for (const fs::directory_entry& entry : entries) {
    if (!entry.is_directory(error)) {
      ++index.ignored;
      continue;
    }
    index.classes.push_back(entry.path().filename().string());
    PACELINE_RETURN_IF_ERROR(list_files(folder, index.classes.back(), 1, index));
  }
  return index;
}

// A path with a tab or a line break has no line.
bool is_kept(const IndexedFile& file) {
  return file.is_kept && file.path.find_first_of("\t\n") == std::string::npos;
}

// One line: bytes, date, kind, width, height, orientation, path, and for what is no picture its fault.
std::string line_of(const IndexedFile& file) {
  const PictureInfo& info = file.info;
  const char* const kind = !file.fault.empty() ? "bad" : info.kind == PictureKind::kJpeg ? "jpeg" : "png";
  return std::to_string(file.bytes) + "\t" + std::to_string(file.modified) + "\t" + kind + "\t" +
         std::to_string(info.stored.width) + "\t" + std::to_string(info.stored.height) + "\t" +
         std::to_string(info.orientation) + "\t" + file.path + "\t" + file.fault + "\n";
}

template <typename T>
bool read_number(std::string_view text, T low, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= low;
}

// What line_of() wrote; nothing for any other line.
std::optional<IndexedFile> file_of(std::string_view line) {
  std::array<std::string_view, 8> fields;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::size_t end = i + 1 < fields.size() ? line.find('\t') : line.size();
    if (end == std::string_view::npos) return std::nullopt;
    fields[i] = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  IndexedFile file{.path = std::string(fields[6]), .fault = std::string(fields[7])};
  const bool is_bad = fields[2] == "bad";
  if (is_bad == file.fault.empty() || (!is_bad && fields[2] != "jpeg" && fields[2] != "png"))
    return std::nullopt;
  file.info.kind = fields[2] == "png" ? PictureKind::kPng : PictureKind::kJpeg;
  const int side_min = is_bad ? 0 : 1;
  int orientation = 0;
  if (!read_number(fields[0], std::int64_t{-1}, file.bytes) ||
      !read_number(fields[1], std::int64_t{INT64_MIN}, file.modified) ||
      !read_number(fields[3], side_min, file.info.stored.width) ||
      !read_number(fields[4], side_min, file.info.stored.height) || !read_number(fields[5], 1, orientation) ||
      orientation > 8) {
    return std::nullopt;
  }
  file.info.orientation = static_cast<std::uint8_t>(orientation);
  return file;
}

// An index that is missing, or another version's, is an empty one: it is only a shortcut.
std::unordered_map<std::string, IndexedFile> read_index(const fs::path& file) {
  std::unordered_map<std::string, IndexedFile> known;
  const Result<std::string> text = file.empty() ? not_found("") : read_file(file, kIndexBytesMax);
  if (!text.is_ok() || !text->starts_with(std::string(kFirstLine) + "\n")) return known;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (auto indexed = file_of(rest.substr(0, end))) {
      std::string path = indexed->path;
      known.emplace(std::move(path), std::move(*indexed));
    }
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return known;
}

Status write_index(const FolderIndex& index, const fs::path& file) {
  std::string text = std::string(kFirstLine) + "\n";
  for (const IndexedFile& indexed : index.files) {
    if (is_kept(indexed)) text += line_of(indexed);
  }
  return write_file_atomically(file, text);
}

// In the run directory, which a worker has not made yet when it opens its data.
Status write_index_elsewhere(const FolderIndex& index, const fs::path& file) {
  std::error_code ignored;  // writing says it
  fs::create_directories(file.parent_path(), ignored);
  return write_index(index, file);
}

// What is left out whatever is read again.
bool is_fault_of_file(const Status& fault) {
  return fault.code() == StatusCode::kDataLoss || fault.code() == StatusCode::kInvalidArgument;
}

Status read_head(const fs::path& folder, IndexedFile& file) {
  const Result<PictureInfo> info = read_picture_info(folder / file.path);
  if (info.is_ok()) {
    file.info = *info;
    return Status::ok();
  }
  if (info.status().code() == StatusCode::kResourceExhausted) return info.status();
  file.is_kept = is_fault_of_file(info.status());
  file.fault = info.status().message();
  std::replace(file.fault.begin(), file.fault.end(), '\n', ' ');
  return Status::ok();
}

// Several at a time: with files on another machine nearly all of the time is waiting. The first error.
Status read_heads(const fs::path& folder, const std::vector<IndexedFile*>& files) {
  constexpr std::size_t kThreadsMax = 8;
  constexpr std::size_t kFilesOfThread = 64;  // fewer are not worth one
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  Status fault;
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      Status status = read_head(folder, *files[i]);
      if (status.is_ok()) continue;
      const std::lock_guard lock(mutex);
      if (fault.is_ok()) fault = std::move(status);
      next = files.size();
    }
  };
  std::vector<std::thread> others;
  const std::size_t wanted = std::min(kThreadsMax, files.size() / kFilesOfThread);
  try {
    while (others.size() + 1 < wanted) others.emplace_back(work);
  } catch (const std::system_error&) {  // there are no more: those that there are do it
  }
  work();
  for (std::thread& other : others) other.join();
  return fault;
}

}  // namespace

Result<PictureInfo> read_picture_info(const fs::path& file) {
  // Enough of nearly every file; then with what a camera puts in front of the pixels.
  constexpr std::array kHeads = {std::size_t{16} << 10, std::size_t{256} << 10};
  constexpr std::size_t kTail = 4096;
  constexpr std::size_t kPngTail = std::size_t{64} << 10;  // as long as a camera's Exif may be
  const auto known = [&](PictureInfo info, std::span<const std::uint8_t> rest) {
    if (info.kind == PictureKind::kJpeg) return info;
    const auto after = orientation_behind(rest.last(std::min(rest.size(), kPngTail)));
    info.orientation = after.value_or(info.orientation);
    return info;
  };
  std::vector<std::uint8_t> bytes;
  Result<PictureHead> head = data_loss("an empty file");
  bool is_whole = false;
  for (const std::size_t most : kHeads) {
    PACELINE_ASSIGN_OR_RETURN(const std::int64_t size, read_picture(file, bytes, most));
    head = read_picture_head(bytes);
    is_whole = static_cast<std::int64_t>(bytes.size()) == size;
    if (head.is_ok() || is_whole) break;
  }
  if (head.is_ok() && !is_whole) {
    std::vector<std::uint8_t> tail;
    const bool is_png = head->info.kind == PictureKind::kPng;
    PACELINE_RETURN_IF_ERROR(read_picture_tail(file, tail, is_png ? kPngTail : kTail));
    if (has_end_mark(head->info.kind, tail)) return known(head->info, tail);
  }
  if (!is_whole) {
    PACELINE_RETURN_IF_ERROR(read_picture(file, bytes).status());
    head = read_picture_head(bytes);
  }
  if (!head.is_ok()) return head.status();
  const auto rest = std::span<const std::uint8_t>(bytes).subspan(head->pixels_at);
  if (has_end_mark(head->info.kind, rest)) return known(head->info, rest);
  return data_loss(std::string(head->info.kind == PictureKind::kJpeg ? "JPEG" : "PNG") + " that is cut off");
}

namespace {

// What is known of the listed files, and what has to be looked at now.
Result<FolderIndex> complete_index(FolderIndex index, const fs::path& folder, const fs::path& beside,
                                   const fs::path& other_index) {
  auto known = read_index(beside);
  if (known.empty()) known = read_index(other_index);
  std::vector<IndexedFile*> unknown;
  for (IndexedFile& file : index.files) {
    const auto at = known.find(file.path);
    if (at != known.end() && at->second.bytes == file.bytes && at->second.modified == file.modified) {
      file = at->second;
    } else {
      unknown.push_back(&file);
    }
  }
  PACELINE_RETURN_IF_ERROR(read_heads(folder, unknown));
  index.heads_read = std::ssize(unknown);
  if (index.heads_read == 0 && known.size() == index.files.size()) return index;
  const Status written = write_index(index, beside);
  if (written.is_ok()) return index;
  const Status instead = other_index.empty() ? written : write_index_elsewhere(index, other_index);
  if (!instead.is_ok())
    index.warning = "the index of " + folder.string() + " is not kept: " + instead.message();
  return index;
}

}  // namespace

Result<FolderIndex> index_folder(const fs::path& folder, const fs::path& other_index) {
  PACELINE_ASSIGN_OR_RETURN(FolderIndex index, list_folder(folder));
  return complete_index(std::move(index), folder, folder / kIndexName, other_index);
}

Result<FolderIndex> index_files(const fs::path& folder, const std::vector<std::string>& paths,
                                const std::string& index_name, const fs::path& other_index) {
  FolderIndex index;
  for (const std::string& path : paths) {
    std::error_code error;
    index.files.push_back(as_it_lies(fs::directory_entry(folder / path, error), path));
  }
  return complete_index(std::move(index), folder, folder / index_name, other_index);
}

}  // namespace paceline
