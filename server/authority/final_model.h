// The final model, put together from the shards' slices as their Parameters come in, and written to the run
// directory. The authority asks every shard, its own included, for the same retained version.
//
// It may be gigabytes, so the pieces are kept as they came, its own shard's blocks and the others' frames,
// and writing them is work for another thread (server/background.h).
//
// Thread: one at a time; the work of writer(): any.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/params/layout.h"
#include "common/params/partition.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "server/peer.h"

namespace paceline::server {

class FinalModel {
 public:
  // Asks every shard for the retained `version`. `shards`: their ranges (common/params/shard_ranges.h).
  void request(const Layout& layout, const std::vector<Range>& shards, Version version, Outbox& outbox);

  // A piece. Errors: kOutOfOrder, kInvalidArgument when it is not the next of its shard.
  [[nodiscard]] Status add(const wire::Parameters& piece, wire::Payload payload);

  bool requested() const { return requested_; }
  bool complete() const;
  // The shards whose slices are not here whole, once it is requested.
  std::vector<ShardId> missing() const;
  // What writes model.bin into `folder` and returns as write_model_file does. The parameters are its own from
  // now on. Once, when complete().
  std::function<Status()> writer(const std::filesystem::path& folder, const std::string& model,
                                 Revision revision);

 private:
  struct Slice {
    Range range;
    std::int64_t received = 0;
    bool complete = false;
    std::vector<wire::Payload> pieces;
  };
  bool requested_ = false;
  Version version_;
  Layout layout_;
  std::vector<Slice> slices_;
};

}  // namespace paceline::server
