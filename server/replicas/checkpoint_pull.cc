#include "server/replicas/checkpoint_pull.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

namespace paceline::server {

Result<wire::Payload> piece_of(const std::filesystem::path& file, const wire::FilePull& pull) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return unavailable("cannot read " + file.string());
  const auto bytes = std::make_shared<std::vector<char>>(wire::kPayloadBytesMax);
  in.seekg(pull.offset);
  in.read(bytes->data(), static_cast<std::streamsize>(bytes->size()));
  if (in.bad()) return unavailable("cannot read " + file.string());
  return wire::Payload{bytes, reinterpret_cast<const std::byte*>(bytes->data()),
                       static_cast<std::size_t>(in.gcount())};
}

std::int64_t CheckpointPull::length_at(const File& file, std::int64_t offset) {
  return std::min<std::int64_t>(wire::kPayloadBytesMax, file.bytes - offset);
}

std::optional<wire::FilePull> CheckpointPull::next() {
  if (under_way_ == kUnderWay || asked_in_ == files_.size()) return std::nullopt;
  const File& file = files_[asked_in_];
  const wire::FilePull pull{file.file, asked_};
  asked_ += length_at(file, asked_);
  if (asked_ == file.bytes) {
    ++asked_in_;
    asked_ = 0;
  }
  ++under_way_;
  return pull;
}

Status CheckpointPull::on(const wire::FilePiece& piece, const wire::Payload& payload) {
  const bool expected = under_way_ > 0 && piece.file == files_[written_in_].file &&
                        piece.offset == written_ &&
                        static_cast<std::int64_t>(payload.size) == length_at(files_[written_in_], written_);
  if (!expected) {
    return data_loss("a piece of a checkpoint's file: got " + std::to_string(payload.size) + " bytes at " +
                     std::to_string(piece.offset) + ", expected those at " + std::to_string(written_));
  }
  const File& file = files_[written_in_];
  --under_way_;
  if (!open_) {
    PACELINE_ASSIGN_OR_RETURN(AtomicFile created, AtomicFile::create(file.path));
    open_.emplace(std::move(created));
  }
  PACELINE_RETURN_IF_ERROR(open_->write(payload.bytes()));
  written_ += static_cast<std::int64_t>(payload.size);
  if (written_ < file.bytes) return Status::ok();
  const Status whole = open_->commit();
  open_.reset();
  ++written_in_;
  written_ = 0;
  return whole;
}

}  // namespace paceline::server
