// The authority of a simulated run: the real synchronisation core (common/sync/engine.h) is told what the
// daemons' authority would be told, and its actions become messages in virtual time, in the order in which
// server/authority sends them: a step's grants leave before shard 0 applies what they follow from.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/params/model_file.h"
#include "common/sync/engine.h"
#include "common/trace/decision_log.h"
#include "simulate/authority_model.h"
#include "simulate/decisions.h"
#include "simulate/nodes.h"
#include "simulate/run_record.h"
#include "simulate/server.h"
#include "simulate/surroundings.h"

namespace paceline::simulate {

// Looks on at what the core is told and what it decides: for tests.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void before(const sync::Event& event, Ticks now) = 0;
  virtual void after(const std::vector<sync::Action>& actions) = 0;
};

// Thread: one.
class Authority {
 public:
  // All outlive it; `watcher`: nullptr, nobody. Shard 0 is the first of `servers`.
  Authority(const Surroundings& world, Nodes& nodes, std::vector<Server>& servers, RunRecord& record,
            Watcher* watcher);
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  const sync::Engine& engine() const { return engine_; }

  // Tells the core, and carries out what it decides.
  void step(const sync::Event& event, Ticks now);

  // Messages: `shard` has the gradient of `worker` stamped so whole; the worker has reported it. `stamp`: of
  // what it has sent (sent_steps.h). Nothing comes of those of a node that was lost meanwhile.
  void gradient_arrived(ShardId shard, std::uint32_t worker, std::uint32_t stamp, Ticks now);
  void reported(std::uint32_t worker, std::uint32_t stamp, Ticks now);
  // What `shard` has found in it that is not finite: it is said with the arrival.
  void note_fault(ShardId shard, std::uint32_t worker, std::uint32_t stamp, std::string fault);
  bool is_live(std::uint32_t worker) const;

  // A decision reaches `shard`; it is applied there.
  void decision_arrives(ShardId shard, std::uint32_t decision, Ticks now);
  void applied(ShardId shard, std::uint32_t decision, Ticks now);

  // The run is over: what it leaves of a model (training mode) and of decisions (run.trace).
  std::optional<ModelFile> finish_model();
  const std::optional<trace::DecisionLog>& log() const { return log_; }

 private:
  void carry_out(const sync::Started& action, Ticks now);
  void carry_out(sync::Apply& action, Ticks now);
  void carry_out(const sync::Grant& action, Ticks now);
  void carry_out(const sync::WindowClosed& action, Ticks now);
  void carry_out(const sync::PolicySwitched& action, Ticks now);
  void carry_out(const sync::FinishWorker& action, Ticks now);
  void carry_out(const sync::AllFinished& action, Ticks now);
  void carry_out(const sync::Reject& action, Ticks now);
  void carry_out(const sync::HeldNotice&, Ticks) {}
  void carry_out(const sync::VersionAdvanced&, Ticks) {}
  void carry_out(const sync::Quiesced&, Ticks) {}          // never asked for
  void carry_out(const sync::ThresholdChanged&, Ticks) {}  // its window's row says so
  void carry_out(const sync::Discard& action, Ticks);
  void carry_out(const sync::RunFailed& action, Ticks);
  template <typename Instruction>
  void send(const Instruction& instruction, EventKind arrival, Ticks now);
  void note_progress(Ticks now);

  const Surroundings& world_;
  Nodes& nodes_;
  std::vector<Server>& servers_;
  RunRecord& record_;
  Watcher* const watcher_;
  sync::Engine engine_;
  std::vector<sync::Action> actions_;
  Decisions decisions_;
  std::vector<std::uint32_t> own_decisions_;  // shard 0's, of the step being carried out
  std::map<std::tuple<ShardId, std::uint32_t, std::uint32_t>, std::string>
      faults_;                           // found by shards, on their way; by worker, stamp
  std::optional<AuthorityModel> model_;  // none: timing mode
  std::optional<trace::DecisionLog> log_;
};

}  // namespace paceline::simulate
