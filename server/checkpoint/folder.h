// The folder RUN/checkpoint: where each file of a checkpoint lies, what is there, and what may go.
//
//   checkpoint/g1-v000000000118/shard-0      by each shard (shard_file.h), perhaps on different machines
//                               shard-1
//                               manifest     by the authority, last (manifest.h): now it is complete
//   checkpoint/best                          which of them has the best test accuracy (checkpoint.keep_best)
//   checkpoint/g2-v000000000236/...          newer, whatever the versions: CheckpointId
//   checkpoint/generation                    the newest that has begun, in digits, once a run was resumed
//
// All names are made from numbers; names that are not exactly such are nobody's business here and stay.
//
// At every moment that a process can be killed the newest complete checkpoint stays: what is written lies in
// a folder of its own, and what is removed is older than a complete one and loses its manifest first. What
// cannot be read (permissions, I/O, too many open files) is not taken for gone or broken: it stays.
//
// Complete is said of manifests and sizes. That a file's content has gone bad is found when it is read, at a
// resume, which then goes on from an older one: pass_over_newer() sees to it that the bad one does not count
// among those that are kept.
//
// Thread: any; the authority's and a shard's process may share one folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/checkpoint_id.h"
#include "common/ids.h"
#include "common/status.h"
#include "server/checkpoint/manifest.h"

namespace paceline::server {

// Which checkpoint a folder of that name is, or a line of checkpoint/best names; nothing for any other text.
std::optional<CheckpointId> checkpoint_id_of(const std::string& name);

std::string checkpoint_folder_name(CheckpointId id);

class CheckpointFolder {
 public:
  // Of the run in the folder `run` (run.out), whose configuration has this fingerprint.
  CheckpointFolder(const std::filesystem::path& run, std::uint64_t fingerprint);

  std::filesystem::path folder(CheckpointId id) const;
  std::filesystem::path shard_file(CheckpointId id, ShardId shard) const;
  std::filesystem::path manifest(CheckpointId id) const;

  // Makes the folder of a checkpoint that is to be written; nothing where it is there already. What was made
  // survives a crash of the machine after sync(). Errors: kUnavailable, kResourceExhausted, kNotFound with
  // the system's reason.
  [[nodiscard]] Status make(CheckpointId id) const;
  [[nodiscard]] Status sync() const;

  // Something under a name of ours that cannot be used, and why, for the log.
  struct Refused {
    CheckpointId id;
    Status why;
  };
  // At the authority: the checkpoints whose manifest is intact and belongs to this configuration, and of
  // whose shards' files those that are here have the size it says, the authority's own among them. The newest
  // first. What has no manifest is no checkpoint, and is not mentioned. A folder that is not there is empty.
  // `refused`: kDataLoss it is broken; kInvalidArgument another configuration's; else it cannot be read now.
  // Errors: kUnavailable the folder cannot be read.
  struct Complete {
    std::vector<Manifest> checkpoints;
    std::vector<Refused> refused;
  };
  Result<Complete> complete() const;

  // That of its shards' files those that are here have the size it says, the authority's own among them.
  // Errors: kDataLoss one has not; kUnavailable it cannot be looked at.
  [[nodiscard]] Status check_sizes(const Manifest& manifest) const;

  // At any server: the files of `shard` that are intact, every byte of them read, the newest first. What it
  // says is to be compared with the manifest (Manifest::shards). Errors as complete().
  struct Intact {
    std::vector<ShardFileInfo> files;
    std::vector<Refused> refused;
  };
  Result<Intact> intact(ShardId shard) const;

  // At the authority of a run that is resumed, once it is known which checkpoint it goes on from, and before
  // anything is written: what is newer than `chosen` is no checkpoint any more (its manifest is renamed to
  // manifest.passed-over), and goes with the next prune() of a newer one. Another configuration's stays.
  // Errors: kUnavailable some cannot be renamed; the others have been.
  [[nodiscard]] Status pass_over_newer(CheckpointId chosen) const;

  // At the authority, after a manifest was written: removes all complete checkpoints but the newest
  // `keep` >= 1, and, older than the newest complete one, what is broken (kDataLoss) and what interrupted
  // writes have left; temporaries of the kept ones, too. What is refused for another reason stays. Where
  // there is no complete one nothing is removed. Errors: kNotFound there is none; kUnavailable the folder
  // cannot be read.
  struct Pruned {
    CheckpointId oldest_kept;  // of the complete ones
    Status status;             // kUnavailable: something cannot be removed; the rest has been
  };
  // Those of `spared` stay, too, whatever their age.
  Result<Pruned> prune(std::size_t keep, std::span<const CheckpointId> spared = {}) const;
  // At another shard, told what prune() has kept: removes its own files of older ones, and what interrupted
  // writes of them have left. Errors: kUnavailable something cannot be removed; the rest has been.
  [[nodiscard]] Status prune_shard(ShardId shard, CheckpointId oldest_kept,
                                   std::span<const CheckpointId> spared = {}) const;

  // The complete checkpoint with the best test accuracy (0..1), as set_best() has it; nothing where there is
  // none, or what says so cannot be read.
  struct Best {
    CheckpointId id;
    double accuracy = 0.0;
  };
  std::optional<Best> best() const;
  // Errors: those of common/files/atomic_file.h.
  [[nodiscard]] Status set_best(const Best& best) const;
  // Removes what there is of one that has failed on some shard. Errors: kFailedPrecondition it has a
  // manifest; kUnavailable whether it has one cannot be said, or it cannot be removed.
  [[nodiscard]] Status abandon(CheckpointId id) const;
  // At another shard, of one that has not become complete: removes its own file, and what an interrupted
  // write of it has left. Errors: those of abandon().
  [[nodiscard]] Status abandon_shard(ShardId shard, CheckpointId id) const;
  // The newest generation that has begun in this folder: 1 where none was resumed. Errors: kDataLoss the file
  // that says so is broken; kUnavailable it cannot be read.
  Result<std::uint64_t> last_generation() const;
  // At the authority of a run that is resumed, before anybody is told of it: no later one gets this number,
  // though it leaves no checkpoint. Errors: those of common/files/atomic_file.h.
  [[nodiscard]] Status begin_generation(std::uint64_t generation) const;

  // Removes all: a new run begins. Errors: kUnavailable something cannot be removed; the rest has been.
  [[nodiscard]] Status clear() const;

 private:
  Result<std::vector<CheckpointId>> entries() const;
  // What complete() makes of one; nothing where there is no manifest.
  Result<std::optional<Manifest>> inspect(CheckpointId id) const;
  Status remove(CheckpointId id) const;
  Status remove_own(CheckpointId id, ShardId shard) const;
  Status remove_temporaries(const Manifest& complete) const;

  std::filesystem::path root_;
  std::uint64_t fingerprint_;
};

}  // namespace paceline::server
