// This node's end of a formation (server/authority/formations.h): the connections to all other nodes of it, the vector
// that is summed over them, and by which programs each bucket of it is.
//
// Thread: whoever connects, then the exchange's; stop() any.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/params/layout.h"
#include "common/schedule/program.h"
#include "common/status.h"
#include "common/ticks.h"
#include "worker/allreduce/bucket_plans.h"
#include "worker/allreduce/kept_choices.h"
#include "worker/mesh/mesh.h"

namespace paceline {

class FormationMesh {
 public:
  // Of no formation. `config` and `layout` outlive it. `now`: what time it is.
  FormationMesh(const RunConfig& config, NodeId node, const Layout& layout, Ticks (*now)());

  // Connects to all others: at `place`, of which `listening` is this one's endpoint; or has connections to them.
  // Errors: Mesh::connect()'s.
  Status join(const mesh::Listening& listening, mesh::Place place);
  Status join(mesh::PeerConnections connections, mesh::Place place);
  // Which algorithms are the fastest, where that is asked for and not kept. Errors: Mesh::reduce()'s.
  Status measure();
  // Makes buckets and shares. `keeps`: plan_buckets()'.
  void plan(bool keeps);
  // Ends the connections, also those of a join() that has failed. Who still waits there takes this node for lost.
  void leave() {
    mesh_.reset();
    begun_.reset();
  }
  bool is_joined() const { return mesh_ != nullptr; }
  // Set: whoever waits here is released, and does not wait until it is forgotten.
  mesh::StopFlag& stop() { return stop_; }

  std::uint32_t rank() const { return ranks_.rank; }
  std::uint32_t ranks() const { return ranks_.ranks; }
  // Once planned.
  const std::vector<Bucket>& buckets() const { return buckets_; }
  const Shares& shares() const { return shares_; }  // of a sharded optimizer
  const KeptChoices& choices() const { return choices_; }

  // Of the layout's size.
  std::span<float> sum() { return std::span(sum_).first(sum_.size() - kCounts); }
  // What nodes count together: samples, and nodes that have taken some for others (sample_weights.h); or nodes that see
  // a sum that is not finite.
  static constexpr std::size_t kCounts = 2;
  std::span<float> counts() { return std::span(sum_).last(kCounts); }
  // A gradient's weight in it: what has fewer bits is divided before it can overflow, and by a power of two, which
  // rounds only numbers below 2^-126 times the workers. 1: the sum is divided.
  float weight() const { return weight_; }
  // Whose gradients it is the sum of. What a stage has is a gradient of its whole group's mini-batch, as the sum of its
  // workers' would be.
  std::uint32_t workers() const;
  // Carries out this rank's part on buckets of it together, which `beginning` makes in part, and with them of the
  // counts, as fp32; or sums all of it, or the counts alone. `on_done`, errors: Mesh::reduce()'s.
  struct Part {
    const schedule::Program& program;
    Range range;
    mesh::Mesh::Beginning beginning = {};
  };
  enum class With { kNothing, kCounts };
  Status reduce(std::span<const Part> parts, With with, const std::function<void(std::size_t part)>& on_done);
  Status sum_all() { return sum_all(sum()); }
  Status sum_counts();
  // Returns when all ranks are connected: what is summed needs something of each. Errors: Mesh::reduce()'s.
  Status await_all();

  // To all, in this formation; and of it what was sent since this was asked last.
  std::int64_t bytes_sent() const { return mesh_->bytes_sent(); }
  std::int64_t take_bytes_sent();
  // Whose connection had ended when reduce() failed by it.
  std::optional<NodeId> gone() const;
  // Who was gone when join() failed by it (handshake.h).
  std::optional<NodeId> unmet() const { return unmet_; }

 private:
  schedule::Program program_of(std::int64_t floats) const;
  Status sum_all(std::span<float> floats);
  std::chrono::milliseconds silence() const;

  const RunConfig& config_;
  const NodeId node_;
  const Layout& layout_;
  Ticks (*const now_)();
  mesh::StopFlag stop_;
  FormationPlace ranks_;
  mesh::Place place_;
  std::unique_ptr<mesh::Mesh> mesh_;   // null: not joined
  std::shared_ptr<const void> begun_;  // of a join() that has failed
  float weight_ = 1.0F;
  std::uint32_t reductions_ = 0;  // begun
  std::int64_t bytes_taken_ = 0;
  std::optional<NodeId> unmet_;
  KeptChoices choices_;  // of none: as the configuration says
  std::vector<Bucket> buckets_;
  std::optional<schedule::Program> of_counts_;  // once planned
  Shares shares_;
  const std::shared_ptr<wire::SharedSegment> segment_;  // null: none is shared
  std::pmr::vector<float> sum_;                         // in it, where there is one; the counts after it
};

}  // namespace paceline
