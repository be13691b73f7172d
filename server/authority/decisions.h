// Decisions: what all shards are told to apply, numbered, so that each applies the same in the same order.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <cstdint>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/sync/actions.h"
#include "common/wire/messages.h"
#include "server/authority/run_outbox.h"

namespace paceline::server {

class Decisions {
 public:
  // `sent`: how many a resumed run had sent, the last of which led to `version`. `config` and `outbox` outlive this.
  Decisions(const RunConfig& config, std::int64_t sent, Version version, RunOutbox& outbox);

  // It leads to a version that no decision before has led to.
  bool advances(const sync::Apply& action) const { return action.version_after > decided_; }
  // In the words in which shards are told it; nothing is retained or saved.
  wire::ApplyDecision of(const sync::Apply& action) const;
  // In the order in which they are to be applied.
  void send(wire::ApplyDecision decision);

  std::int64_t sent() const { return sent_; }

 private:
  const RunConfig& config_;
  RunOutbox& outbox_;
  std::int64_t sent_;  // and so the number of the next
  Version decided_;    // of the last
};

}  // namespace paceline::server
