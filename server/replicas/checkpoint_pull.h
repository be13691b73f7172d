// The files of a checkpoint, given by the replica that serves to one that is to follow it from there: asked
// for piece by piece, a few ahead, so that neither side holds more than those in memory, and written under
// their names when they are whole. The manifest, which makes them a checkpoint, comes last.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/checkpoint_id.h"
#include "common/files/atomic_file.h"
#include "common/status.h"
#include "common/wire/messages.h"

namespace paceline::server {

// At the replica that serves: what is to be sent for `pull` of this file. Errors: kNotFound, kUnavailable, as
// the system says; After the end there are no bytes.
Result<wire::Payload> piece_of(const std::filesystem::path& file, const wire::FilePull& pull);

// At the other one.
class CheckpointPull {
 public:
  static constexpr int kUnderWay = 4;  // pieces that are asked for and have not come

  struct File {
    wire::CheckpointFile file{};
    std::filesystem::path path;  // where it is to lie, in a folder that is there
    std::int64_t bytes = 0;      // > 0
  };
  CheckpointPull(CheckpointId id, std::vector<File> files) : id_(id), files_(std::move(files)) {}

  CheckpointId id() const { return id_; }
  // What is to be asked for now; nothing while enough is under way, or all has been.
  std::optional<wire::FilePull> next();
  // A piece has come. Errors: kDataLoss it is not the one that was asked for next; those of AtomicFile.
  [[nodiscard]] Status on(const wire::FilePiece& piece, const wire::Payload& payload);
  // All files are there, whole.
  bool complete() const { return written_in_ == files_.size(); }

 private:
  static std::int64_t length_at(const File& file, std::int64_t offset);

  CheckpointId id_;
  std::vector<File> files_;
  std::size_t asked_in_ = 0;
  std::int64_t asked_ = 0;  // of that file
  std::size_t written_in_ = 0;
  std::int64_t written_ = 0;
  int under_way_ = 0;
  std::optional<AtomicFile> open_;  // the file that is being written
};

}  // namespace paceline::server
