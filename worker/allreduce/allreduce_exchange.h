// AllReduceExchange: the nodes sum their gradients among themselves, and each steps a copy of the parameters of
// its own (Goyal et al. 2017, §4). All copies have the same bits: the sum of an element is made at one rank, in one
// order, and spread (common/schedule/planners.h); the mean and the optimizer's step are the same loops everywhere.
//
//   training threads: push_early(), push() --> gradients of this node, as far as they are final
//   exchange thread:  bucket after bucket, from the model's end: threads' gradients summed, reduced over the mesh;
//                     after the last one the mean is applied: the next version, which wakes whoever waits for it
//
// A bucket leaves once every thread's gradient is final from its begin on, so the backward pass goes on meanwhile.
// The order of buckets is the same on every rank. push() returns when the version is there: what is reported to the
// coordinator is in every rank's copy, or the run has failed. Parameters are stepped only after the last bucket, so
// a rank that is lost in the middle leaves every other one with a whole version.
//
// The mean is one over samples (sample_weights.h). After the last bucket nodes know of how many, since they count them
// together with it.
//
// With train.on_nan: skip a gradient that is not finite is summed as it is. So every rank sees that the sum is not, and
// none takes the step: the version that follows has the same parameters, and no gradient of the round counts. Of a
// sharded optimizer a rank sees its own parts alone; so those that see something are counted.
//
// With exchange.shard_optimizer a bucket is only summed, each part at one rank. After the last one each rank steps its
// parts, and they go to all others (sharded_optimizer.h).
//
// Thread: any. Memory, in parameters: the sum, the optimizer's state or its share, and of parameters the newest, the
// one that is being made of it, what the process cache has of an older one, and those that are still to be evaluated.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "common/config/run_config.h"
#include "common/params/layout.h"
#include "common/timing/bucket_span.h"
#include "common/traffic.h"
#include "worker/allreduce/bucket_sums.h"
#include "worker/allreduce/formation_mesh.h"
#include "worker/allreduce/kept_choices.h"
#include "worker/allreduce/node_model.h"
#include "worker/allreduce/reduction_counts.h"
#include "worker/allreduce/round_gradients.h"
#include "worker/allreduce/sample_weights.h"
#include "worker/cache/process_cache.h"
#include "worker/exchange/exchange.h"
#include "worker/exchange/run_state.h"
#include "worker/mesh/mesh.h"

namespace paceline {

class AllReduceExchange final : public Exchange {
 public:
  // How this node has left a formation: the nodes that are connected to each other (server/authority/formations.h).
  struct Parting {
    std::uint32_t formation = 0;
    Version version;             // that this node has
    std::optional<NodeId> lost;  // whose connection has ended, where it is one's
    std::string why;
  };
  // The next one.
  struct Meeting {
    std::uint32_t formation = 0;
    mesh::Listening listening;
    mesh::Place place;
    Version version;  // that all go on from
    std::optional<std::uint32_t>
        holder;  // the rank that gives it to those who have an older one; nullopt: all have it
  };
  struct Parts {
    const RunConfig& config;  // validated, exchange.kind: allreduce
    NodeId node;
    const Layout& layout;
    ProcessCache& cache;  // its only range is all of the layout
    Ticks (*now)();       // what time it is, any thread
    // Called once where a reduction fails, by the exchange's thread: the node cannot go on.
    std::function<void(const Status&)> on_failure;
    // Where a node is lost and the others are to go on, by the exchange's thread: waits for the next formation, for
    // which all have left this one, and no longer than for whoever closes the exchange, since stop() waits for it. The
    // connections end after it, and so does what listens for them: who closed them before would be taken for the lost
    // one. Empty: a loss is a failure. Errors: why there is none.
    std::function<Result<Meeting>(const Parting&)> meet = {};
    // Called for each bucket that is reduced, by the exchange's thread. Empty: nobody wants to know.
    std::function<void(const BucketSpan&)> on_bucket = {};
    // Called by the exchange's thread once this node goes on in a formation that `meet` has given, which another loss,
    // or a state that is lost, may prevent. Empty: nobody wants to know.
    std::function<void(const Meeting&)> on_formation = {};
    // nullopt: the layout is the run's.
    std::optional<PlaceInRun> place = std::nullopt;
    // Where parameters lie, as TaskFactory::parameter_memory().
    std::shared_ptr<std::pmr::memory_resource> memory = nullptr;
  };
  // All that `parts` refers to outlives it.
  explicit AllReduceExchange(Parts parts);
  // Stops the exchange's thread.
  ~AllReduceExchange() override;
  AllReduceExchange(const AllReduceExchange&) = delete;
  AllReduceExchange& operator=(const AllReduceExchange&) = delete;

  // Connects to all other nodes: at `place`, of which `listening` is this one's endpoint. Measures which algorithms to
  // choose, where that is asked for. Errors: Mesh::connect()'s and Mesh::reduce()'s.
  Status connect(const mesh::Listening& listening, mesh::Place place);
  // The same over connections that are there, to every other rank of the place.
  Status connect(mesh::PeerConnections connections, mesh::Place place);
  // Once connected, before begin(): returns when all nodes are. Errors: Mesh::reduce()'s.
  Status await_all();
  // The formation of that number is over, since a node of it is lost, `why`: this one leaves it at once. Thread: any.
  void leave(std::uint32_t formation, const std::string& why);
  // What the run begins with, or goes on from. Once connected; reduces from now on. Errors: kInvalidArgument other
  // than as many floats as version and optimizer ask for.
  [[nodiscard]] Status begin(const RunState& from);

  // ---- for training threads (worker/exchange/exchange.h)
  void push(Contribution gradient) override;
  void push_early(const Contribution& gradient, std::int64_t begin) override;
  // What of it is in sums already cannot be taken out, so this round never ends: the run is over.
  void withdraw(const Contribution& gradient) override;
  void push_not_finite(Contribution gradient, std::span<float> values) override;
  std::string left_out(Clock clock) const override;
  Ticket request_parameters(Version min_version) override;
  Result<Ticks> await_parameters(Ticket ticket, ParameterSink& sink) override;
  std::optional<Ticks> parameters_installed(Ticket ticket) override;
  // Of a node's threads the first has what was sent.
  EarlyPush pushed_early(WorkerId worker, Ticks until) const override;

  // All rounds of this node are made: where a formation is over, there need be no other one. What it has stays here.
  void end_rounds();
  // Releases every waiter, now and later, with `why` (not OK). The first close counts.
  void close(const Status& why);
  // Closes, and waits until the exchange's thread has ended: `on_failure` is not called any more. Not from there.
  void stop();

  // Keeps this version, which is the newest, until fetch_exact() has taken it or a later one; nothing where it is not.
  void keep(Version version);
  // Exactly this version: one that is kept, or the newest. Errors: kNotFound.
  Status fetch_exact(Version version, std::span<float> flat);
  // The state of this version, if it is the newest; null where it is not. Of a sharded optimizer this node's part.
  std::shared_ptr<const RunState> state_at(Version version) const;
  // That of the newest, with what this node keeps for another one.
  std::shared_ptr<const RunState> last_state() const;
  Version version() const;
  // Of sums, gradients and parameters, to other nodes so far, and how long their reductions have taken.
  Traffic traffic() const;
  // How buckets are summed, and whether what was measured is on this node's disk now. Once connected.
  const KeptChoices& choices() const { return mesh_.choices(); }
  // The node whose going has ended the newest formation, if one has.
  std::optional<NodeId> gone() const;

 private:
  Status begin_formation(Status joined);
  bool is_left() const { return left_ >= formation_; }
  bool goes_on_after(const Status& failed) const;
  Status meet_again(std::unique_lock<std::mutex>& lock, Status why);
  Status take_over(const Meeting& meeting);
  Result<std::optional<RunState>> take_from(const Meeting& meeting);
  void put(const Contribution& gradient, std::int64_t final_from, std::optional<std::int64_t> samples);
  void reduce_rounds();
  Status reduce_round(std::unique_lock<std::mutex>& lock);
  Result<std::string> sum_buckets(std::unique_lock<std::mutex>& lock);
  Status step(std::unique_lock<std::mutex>& lock);
  void begin_round();
  void install();

  const Parts parts_;
  const std::uint32_t threads_;
  const bool counts_samples_;
  FormationMesh mesh_;  // by the exchange's thread; before begin() by whoever connects
  BucketSums sums_;     // over it
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  RoundGradients own_;
  SampleWeights weights_;
  std::int64_t samples_ = 0;  // of all nodes, in the last sum
  bool were_others_ = false;  // of some node
  ReductionCounts counts_;
  NodeModel model_;
  Ticks since_;  // its version is here since then
  // The last round whose sum was not finite, and why.
  struct LeftOut {
    Clock clock{-1};
    std::string why;
  };
  LeftOut left_out_;
  std::optional<NodeId> gone_;
  std::uint32_t formation_ = 1;
  std::uint32_t left_ = 0;  // the newest that is to be left,
  std::string why_left_;    // and why
  bool rounds_are_over_ = false;
  Status closed_;
};

}  // namespace paceline
