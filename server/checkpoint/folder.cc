// Names from numbers and back, and what is removed in which order.
#include "server/checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/files/atomic_file.h"

namespace paceline::server {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGenerationFile = "generation";
constexpr std::size_t kGenerationBytesMax = 64;
constexpr const char* kBestFile = "best";
constexpr std::size_t kBestBytesMax = 256;

// Takes a number off the front of `text`.
template <typename Number>
std::optional<Number> number_from(std::string_view& text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

Status status_of(const char* cannot, const fs::path& path, const std::error_code& error) {
  return error ? file_error(cannot, path, error.value()) : Status::ok();
}

// An error: nobody can say.
Result<bool> is_there(const fs::path& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  PACELINE_RETURN_IF_ERROR(status_of("read", path, error));
  return there;
}

// Does all, and returns the first error.
class FirstError {
 public:
  void operator()(Status status) {
    if (first_.is_ok()) first_ = std::move(status);
  }
  Status status() const { return first_; }

 private:
  Status first_;
};

// Those of a folder that are meant.
Status remove_files(const fs::path& folder, const std::function<bool(const fs::path&)>& is_meant) {
  FirstError first;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!is_meant(it->path())) continue;
    std::error_code failed;
    fs::remove(it->path(), failed);
    first(status_of("remove", it->path(), failed));
  }
  if (error != std::errc::no_such_file_or_directory) first(status_of("read", folder, error));
  return first.status();
}

}  // namespace

std::string checkpoint_folder_name(CheckpointId id) {
  char version[24];
  std::snprintf(version, sizeof version, "%012lld", static_cast<long long>(id.version.value));
  return "g" + std::to_string(id.generation) + "-v" + version;
}

// Nothing for a name that is not exactly what checkpoint_folder_name() makes.
std::optional<CheckpointId> checkpoint_id_of(const std::string& name) {
  std::string_view rest = name;
  if (!rest.starts_with("g")) return std::nullopt;
  rest.remove_prefix(1);
  const auto generation = number_from<std::uint64_t>(rest);
  if (!generation || !rest.starts_with("-v")) return std::nullopt;
  rest.remove_prefix(2);
  const auto version = number_from<std::int64_t>(rest);
  if (*generation == 0 || !version || *version < 0) return std::nullopt;
  const CheckpointId id{*generation, Version(*version)};
  return checkpoint_folder_name(id) == name ? std::optional(id) : std::nullopt;
}

CheckpointFolder::CheckpointFolder(const fs::path& run, std::uint64_t fingerprint)
    : root_(run / "checkpoint"), fingerprint_(fingerprint) {}

fs::path CheckpointFolder::folder(CheckpointId id) const { return root_ / checkpoint_folder_name(id); }

fs::path CheckpointFolder::shard_file(CheckpointId id, ShardId shard) const {
  return folder(id) / ("shard-" + to_string(shard));
}

fs::path CheckpointFolder::manifest(CheckpointId id) const { return folder(id) / "manifest"; }

Status CheckpointFolder::make(CheckpointId id) const {
  std::error_code error;
  fs::create_directories(folder(id), error);
  return status_of("make", folder(id), error);
}

Status CheckpointFolder::sync() const {
  PACELINE_RETURN_IF_ERROR(sync_folder(root_.parent_path()));
  return sync_folder(root_);
}

// The newest first.
Result<std::vector<CheckpointId>> CheckpointFolder::entries() const {
  std::vector<CheckpointId> ids;
  std::error_code error;
  fs::directory_iterator it(root_, error);
  if (error == std::errc::no_such_file_or_directory) return ids;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    std::error_code gone;
    if (it->symlink_status(gone).type() != fs::file_type::directory) continue;
    if (const auto id = checkpoint_id_of(it->path().filename().string())) ids.push_back(*id);
  }
  if (error) return unavailable("cannot read " + root_.string() + ": " + error.message());
  std::sort(ids.begin(), ids.end(), std::greater());
  return ids;
}

// Shards of other machines have theirs in folders there.
Status CheckpointFolder::check_sizes(const Manifest& manifest) const {
  for (std::uint32_t k = 0; k < manifest.shards.size(); ++k) {
    const fs::path file = shard_file(manifest.id, ShardId(k));
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(file, error);
    if (error == std::errc::no_such_file_or_directory) {
      if (ShardId(k) != kAuthority) continue;
      return data_loss(file.string() + ": it is missing, its manifest says " +
                       std::to_string(manifest.shards[k].bytes) + " bytes");
    }
    PACELINE_RETURN_IF_ERROR(status_of("read", file, error));
    if (bytes != manifest.shards[k].bytes) {
      return data_loss(file.string() + ": " + std::to_string(bytes) + " bytes, its manifest says " +
                       std::to_string(manifest.shards[k].bytes));
    }
  }
  return Status::ok();
}

Result<std::optional<Manifest>> CheckpointFolder::inspect(CheckpointId id) const {
  PACELINE_ASSIGN_OR_RETURN(const bool there, is_there(manifest(id)));
  if (!there) return std::optional<Manifest>();
  PACELINE_ASSIGN_OR_RETURN(Manifest found, read_manifest(manifest(id), id, fingerprint_));
  PACELINE_RETURN_IF_ERROR(check_sizes(found));
  return std::optional(std::move(found));
}

Result<CheckpointFolder::Complete> CheckpointFolder::complete() const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CheckpointId> ids, entries());
  Complete complete;
  for (const CheckpointId id : ids) {
    Result<std::optional<Manifest>> found = inspect(id);
    if (!found.is_ok()) {
      complete.refused.push_back({id, found.status()});
    } else if (*found) {
      complete.checkpoints.push_back(std::move(**found));
    }
  }
  return complete;
}

Result<CheckpointFolder::Intact> CheckpointFolder::intact(ShardId shard) const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CheckpointId> ids, entries());
  Intact intact;
  for (const CheckpointId id : ids) {
    const fs::path file = shard_file(id, shard);
    const Result<bool> there = is_there(file);
    if (there.is_ok() && !*there) continue;
    const Result<ShardFileInfo> info = verify_shard_file(file, {id, fingerprint_, shard, {}, {}, {}});
    if (info.is_ok()) {
      intact.files.push_back(*info);
    } else {
      intact.refused.push_back({id, info.status()});
    }
  }
  return intact;
}

// The manifest first, on disk: a removal that is interrupted leaves no checkpoint that lacks a file.
Status CheckpointFolder::remove(CheckpointId id) const {
  PACELINE_ASSIGN_OR_RETURN(const bool there, is_there(folder(id)));
  if (!there) return Status::ok();
  std::error_code error;
  fs::remove(manifest(id), error);
  PACELINE_RETURN_IF_ERROR(status_of("remove", manifest(id), error));
  const Status synced = sync_folder(folder(id));
  if (synced.code() == StatusCode::kNotFound)
    return Status::ok();  // another process has removed it meanwhile
  PACELINE_RETURN_IF_ERROR(synced);
  fs::remove_all(folder(id), error);
  return status_of("remove", folder(id), error);
}

// Nobody writes into a complete one any more.
Status CheckpointFolder::remove_temporaries(const Manifest& complete) const {
  const CheckpointId id = complete.id;
  const auto is_one = [&](const fs::path& file) {
    bool is_temporary = is_temporary_of(file, manifest(id));
    for (std::uint32_t k = 0; k < complete.shards.size() && !is_temporary; ++k) {
      is_temporary = is_temporary_of(file, shard_file(id, ShardId(k)));
    }
    return is_temporary;
  };
  return remove_files(folder(id), is_one);
}

Status CheckpointFolder::pass_over_newer(CheckpointId chosen) const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CheckpointId> ids, entries());
  FirstError first;
  for (const CheckpointId id : ids) {
    if (id <= chosen) continue;
    const Result<std::optional<Manifest>> found = inspect(id);
    if (found.is_ok() && !*found) continue;
    if (found.status().code() == StatusCode::kInvalidArgument) continue;
    std::error_code error;
    fs::rename(manifest(id), folder(id) / "manifest.passed-over", error);
    first(status_of("rename", manifest(id), error));
    if (!error) first(sync_folder(folder(id)));
  }
  return first.status();
}

Result<CheckpointFolder::Pruned> CheckpointFolder::prune(std::size_t keep,
                                                         std::span<const CheckpointId> spared) const {
  PACELINE_ASSIGN_OR_RETURN(const Complete all, complete());
  if (all.checkpoints.empty()) return not_found(root_.string() + " holds no complete checkpoint");
  FirstError error;
  std::vector<CheckpointId> kept;
  for (const Manifest& one : all.checkpoints) {
    if (kept.size() == std::max<std::size_t>(1, keep)) break;
    kept.push_back(one.id);
    error(remove_temporaries(one));
  }
  std::vector<CheckpointId> stay = kept;
  stay.insert(stay.end(), spared.begin(), spared.end());
  for (const Refused& one : all.refused) {
    if (one.why.code() != StatusCode::kDataLoss) stay.push_back(one.id);
  }
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CheckpointId> ids, entries());
  for (const CheckpointId id : ids) {
    const bool newer = id > kept.front();  // is being written
    if (!newer && std::find(stay.begin(), stay.end(), id) == stay.end()) error(remove(id));
  }
  return Pruned{kept.back(), error.status()};
}

Status CheckpointFolder::prune_shard(ShardId shard, CheckpointId oldest_kept,
                                     std::span<const CheckpointId> spared) const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CheckpointId> ids, entries());
  FirstError first;
  for (const CheckpointId id : ids) {
    const bool stays = std::find(spared.begin(), spared.end(), id) != spared.end();
    if (id < oldest_kept && !stays) first(remove_own(id, shard));
  }
  return first.status();
}

Status CheckpointFolder::remove_own(CheckpointId id, ShardId shard) const {
  const fs::path own = shard_file(id, shard);
  const Status removed = remove_files(
      folder(id), [&](const fs::path& file) { return file == own || is_temporary_of(file, own); });
  std::error_code not_empty;  // other shards, or the authority, have theirs there
  fs::remove(folder(id), not_empty);
  return removed;
}

Status CheckpointFolder::abandon(CheckpointId id) const {
  PACELINE_ASSIGN_OR_RETURN(const bool there, is_there(manifest(id)));
  if (there) return failed_precondition(folder(id).string() + " is a complete checkpoint");
  return remove(id);
}

Status CheckpointFolder::abandon_shard(ShardId shard, CheckpointId id) const {
  PACELINE_ASSIGN_OR_RETURN(const bool there, is_there(manifest(id)));
  if (there) return failed_precondition(folder(id).string() + " is a complete checkpoint");
  return remove_own(id, shard);
}

Result<std::uint64_t> CheckpointFolder::last_generation() const {
  const fs::path file = root_ / kGenerationFile;
  const Result<std::string> text = read_file(file, kGenerationBytesMax);
  if (text.status().code() == StatusCode::kNotFound) return std::uint64_t{1};
  PACELINE_RETURN_IF_ERROR(text.status());
  std::string_view rest = *text;
  const auto generation = number_from<std::uint64_t>(rest);
  if (!generation || *generation == 0 || rest != "\n") {
    return data_loss(file.string() + ": no generation, expected a number and a line's end");
  }
  return *generation;
}

Status CheckpointFolder::begin_generation(std::uint64_t generation) const {
  return write_file_atomically(root_ / kGenerationFile, std::to_string(generation) + "\n");
}

std::optional<CheckpointFolder::Best> CheckpointFolder::best() const {
  const Result<std::string> text = read_file(root_ / kBestFile, kBestBytesMax);
  if (!text.is_ok()) return std::nullopt;
  const std::size_t space = text->find(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto id = checkpoint_id_of(text->substr(0, space));
  std::string_view rest = std::string_view(*text).substr(space + 1);
  const auto accuracy = number_from<double>(rest);
  if (!id || !accuracy || !(*accuracy >= 0.0 && *accuracy <= 1.0)) return std::nullopt;
  const Result<bool> there = is_there(manifest(*id));
  return there.is_ok() && *there ? std::optional(Best{*id, *accuracy}) : std::nullopt;
}

Status CheckpointFolder::set_best(const Best& best) const {
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, " %.6f\n", best.accuracy);
  return write_file_atomically(root_ / kBestFile, checkpoint_folder_name(best.id) + accuracy);
}

Status CheckpointFolder::clear() const {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<CheckpointId> ids, entries());
  FirstError error;
  for (const CheckpointId id : ids) error(remove(id));
  for (const char* const name : {kGenerationFile, kBestFile}) {
    std::error_code failed;
    fs::remove(root_ / name, failed);
    if (failed != std::errc::not_a_directory) error(status_of("remove", root_ / name, failed));
  }
  std::error_code not_empty;  // of what is not ours
  fs::remove(root_, not_empty);
  return error.status();
}

}  // namespace paceline::server
