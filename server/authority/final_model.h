// The final model, put together from the shards' slices as their Parameters come in, and written to the run
// directory. The authority asks every shard, its own included, for the same retained version.
//
// Pure but for write(). Thread: one at a time.
#pragma once

#include <filesystem>
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
  // Asks every shard for the retained `version`.
  void request(const Layout& layout, std::uint32_t shards, Version version, Outbox& outbox);

  // A piece. Errors: kOutOfOrder, kInvalidArgument when it is not the next of its shard.
  [[nodiscard]] Status add(const wire::Parameters& piece, std::span<const float> values);

  bool requested() const { return requested_; }
  bool complete() const;
  // Writes model.bin into `folder`. Errors: those of write_model_file.
  [[nodiscard]] Status write(const std::filesystem::path& folder, const std::string& model,
                             Revision revision) const;

 private:
  struct Slice {
    Range range;
    std::int64_t received = 0;
    bool complete = false;
  };
  bool requested_ = false;
  Version version_;
  Layout layout_;
  std::vector<Slice> slices_;
  std::vector<float> parameters_;
};

}  // namespace paceline::server
