// A run whose authority saves checkpoints, and is resumed from one: for the tests of
// authority_checkpoints_test.cc and authority_resume_test.cc.
#pragma once

#include "common/checkpoint/engine_state.h"
#include "common/config/load.h"
#include "common/files/atomic_file.h"
#include "tests/unit/authority_fixture.h"

namespace paceline::server {
namespace {

RunConfig saving_run(std::int64_t every = 1) {
  RunConfig config = small_run();
  config.checkpoint.every_clocks = every;
  return config;
}

// Two shards that write nothing, but say that they have.
struct SavingRun : Run {
  explicit SavingRun(RunConfig c = saving_run()) : Run(std::move(c)) { gather(); }
  std::vector<std::string> warnings;
  CheckpointFolder checkpoints() const { return {config.run.out, fingerprint(config, AgreedBy::kRun)}; }
  std::vector<std::int64_t> versions_to_save() const {
    std::vector<std::int64_t> versions;
    for (const auto& decision : sent.of<wire::ApplyDecision>(kShard1)) {
      if (decision.save) versions.push_back(decision.version_after.value);
    }
    return versions;
  }
  // As a shard's process does: its file is there before it says so.
  void save(std::uint32_t shard, std::int64_t version) {
    const CheckpointId id{1, Version(version)};
    REQUIRE(checkpoints().make(id).is_ok());
    REQUIRE(write_file_atomically(checkpoints().shard_file(id, ShardId(shard)), "12345").is_ok());
    send(Peer::of(ShardId(shard)), wire::Saved{ShardId(shard), Version(version), {5, shard + 1}, ""});
  }
  void save(std::int64_t version) {
    save(0, version);
    save(1, version);
  }
  // Another authority goes on from the newest checkpoint; nobody is there yet.
  void resume() {
    const Manifest manifest = checkpoints().complete()->checkpoints.at(0);
    authority.reset();
    sent.clear();
    RunRecord::Saved saved{run_record_from_bytes(manifest.record, config.cluster.cluster()).value(),
                           manifest.id.version, manifest.seconds_trained, 2};
    auto record = RunRecord::resume(config, std::move(saved), log);
    REQUIRE(record.is_ok());
    Authority::Resumed resumed{manifest.id, 2, manifest.decisions, manifest.layout_hash,
                               checkpoint::engine_state_from_bytes(manifest.engine).value()};
    authority.emplace(config, std::move(record).value(), sent, errands, log, now, std::move(resumed));
    authority->shard_joined(ShardId(1));
  }
  void come(std::uint32_t node) { authority->node_joined(NodeId(node), layout_of(8), now, 0, kData); }
  void shards_ready() {
    for (const std::uint32_t k : {0U, 1U}) {
      send(Peer::of(ShardId(k)), wire::ShardReady{ShardId(k), layout_of(8).hash()});
    }
  }
  std::vector<CheckpointId> complete() const {
    std::vector<CheckpointId> ids;
    const auto found = checkpoints().complete();
    REQUIRE(found.is_ok());
    for (const Manifest& manifest : found->checkpoints) ids.push_back(manifest.id);
    return ids;
  }
};

}  // namespace
}  // namespace paceline::server
