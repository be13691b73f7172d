// The final model, put together from the shards' slices as their Parameters come in, and written to the run
// directory. The authority asks every shard, its own included, for the same retained version.
//
// It may be gigabytes, so the pieces are kept as they came, its own shard's blocks and the others' frames,
// and writing them is work for another thread (server/loop/background.h).
//
// Thread: one at a time (the server's loop).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/params/layout.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/loop/background.h"
#include "server/peers/peer.h"

namespace paceline::server {

class FinalModel {
 public:
  // Asks every shard for the retained `version`. `shards`: their ranges (common/params/shard_ranges.h).
  void request(const Layout& layout, const std::vector<Range>& shards, Version version, Outbox& outbox);

  // A piece. Errors: kOutOfOrder, kInvalidArgument when it is not the next of its shard.
  [[nodiscard]] Status add(const wire::Parameters& piece, wire::Payload payload);

  bool requested() const { return requested_; }
  // All is here, and nobody writes it yet.
  bool is_ready() const;
  // The shards whose slices are not here whole, once it is requested.
  std::vector<ShardId> missing() const;
  // Has model.bin written into `folder`, once, when is_ready(); `done` and `here` as in Background, which this
  // outlives. Their Status: as write_model_file's.
  void write(Background& background, const std::filesystem::path& folder, const std::string& model,
             Revision revision, Background::Done done, Background::Here here);
  bool is_being_written() const { return file_ == File::kBeingWritten; }
  bool is_written() const { return file_ == File::kWritten; }

 private:
  struct Slice {
    Range range;
    std::int64_t received = 0;
    bool complete = false;
    std::vector<wire::Payload> pieces;
  };
  enum class File { kMissing, kBeingWritten, kWritten };

  bool requested_ = false;
  Version version_;
  Layout layout_;
  std::vector<Slice> slices_;
  File file_ = File::kMissing;
};

}  // namespace paceline::server
