#include "server/replicas/checkpoint_taker.h"

#include <vector>

#include "server/service/checkpoint_reading.h"

namespace paceline::server {

void CheckpointTaker::on_resumes(const wire::ReplicaResumes& resumes) {
  if (reads_ == resumes.from || (pull_ && pull_->id() == resumes.from)) return;  // it comes
  reads_.reset();
  setup_.log.info(setup_.name() + " is given the checkpoint of " + to_string(resumes.from));
  const CheckpointFolder folder = setup_.checkpoints();
  if (const Status made = folder.make(resumes.from); !made.is_ok()) return end_.end(made);
  using File = wire::CheckpointFile;
  std::vector<CheckpointPull::File> files;
  files.push_back({File::kShard, folder.shard_file(resumes.from, setup_.shard), resumes.shard_bytes});
  if (setup_.is_authority()) {
    files.push_back({File::kManifest, folder.manifest(resumes.from), resumes.manifest_bytes});
  }
  for (const CheckpointPull::File& file : files) {
    if (file.bytes == 0) {
      return end_.end(data_loss("the checkpoint to go on from is given without its files"));
    }
  }
  pull_.emplace(resumes.from, std::move(files));
  pull_more();
}

void CheckpointTaker::on_piece(const wire::FilePiece& piece, const wire::Payload& payload) {
  if (!pull_) return;
  const Status written = pull_->on(piece, payload);
  if (!written.is_ok()) return end_.end(Status(written).with_context("the checkpoint to go on from"));
  pull_more();
}

void CheckpointTaker::pull_more() {
  while (const std::optional<wire::FilePull> pull = pull_->next()) {
    const Status sent = send_({*pull, {}});
    if (!sent.is_ok()) return setup_.log.debug(sent.message());  // it is gone; another one gives it anew
  }
  if (pull_->complete()) read_given();
}

void CheckpointTaker::read_given() {
  const CheckpointId id = pull_->id();
  pull_.reset();
  reads_ = id;
  read_checkpoint(setup_, background_, id,
                  [this, id](const Status& read, std::shared_ptr<std::optional<ShardFile>> file, Ticks) {
                    if (end_.ended() || reads_ != id) return;
                    reads_.reset();
                    if (!read.is_ok()) {
                      return end_.end(Status(read).with_context("the checkpoint to go on from"));
                    }
                    has_ = id;
                    file_ = std::move(*file);
                    ready_();
                  });
}

}  // namespace paceline::server
