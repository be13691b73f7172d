// ShardedOptimizer: the optimizer of an all-reduce of which each node steps its own part of the parameters (ZeRO,
// Rajbhandari et al. 2020, stage 1; common/schedule/halves.h). So its state is 1 / K of the whole on each of K nodes,
// and twice that where another node keeps it as well.
//
//   begin_step()   of the summed gradient's own and kept parts the next parameters are made, in place
//   end_step()     all nodes have all of them: the step is made
//
// Between the two the state of before is kept, and a node that is lost then leaves the others with either: the step is
// made if any node has all of its parameters, and taken back if none has. A keeper has a node's sums before any node
// has its parameters, so what the state of a made step was is known by the node or its keeper. A step that is left out
// changes nothing but t, so whoever has not heard of it yet has its state all the same.
//
// When nodes are lost, those that are left own other parts: moved_to(). The state they move is that of the last
// formation in which a step was made, until one is made in theirs: some may have moved when another node is lost, and
// some not.
//
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/clock.h"
#include "common/config/run_config.h"
#include "common/ids.h"
#include "common/params/layout.h"
#include "common/params/optimizer.h"
#include "common/params/partition.h"
#include "common/status.h"

namespace paceline {

// Who steps what in a formation.
struct Shares {
  struct Part {
    Range range;
    std::uint32_t owner = 0;   // a rank
    std::uint32_t keeper = 0;  // who has its state as well; the owner: nobody has
  };
  std::uint32_t rank = 0;     // this node's
  std::vector<NodeId> nodes;  // by rank
  std::vector<Part> parts;    // of all parameters
};

class ShardedOptimizer {
 public:
  // All outlive this.
  ShardedOptimizer(const OptimizerSection& settings, const Layout& layout)
      : settings_(settings), layout_(layout) {}

  // The first formation. `state`: the optimizer's vectors, one after the other, each as long as the layout; empty:
  // zeros. steps: gradients that are in it.
  void begin(Shares shares, std::span<const float> state, std::int64_t steps);

  // Version `from` becomes the next: own and kept parts of `sum`, a mean of gradients, become parameters.
  void begin_step(Version from, double learning_rate, std::span<const float> parameters,
                  std::span<float> sum);
  void end_step();
  // No step: the state stays, but for its t.
  void skip_step(double learning_rate);

  struct Piece {
    Shares::Part part;
    bool kept = false;  // of another node's
    OptimizerState state;
    std::optional<OptimizerImage> before = {};  // while a step is under way
  };
  struct Parts {
    Shares shares;
    Version since;
    std::vector<Piece> pieces;  // own, then kept
  };
  // What this node has in the next formation, which goes on from `version`: the newest that was begun or ended. `all`:
  // as long as the layout; `sum_all` puts the sum over all its nodes into it. Errors: sum_all's; kDataLoss the state of
  // a lost node is lost with its keeper, naming both: so for all who are left.
  Result<Parts> moved_to(Shares next, Version version, std::span<float> all,
                         const std::function<Status()>& sum_all) const;
  // Goes on with it.
  void move(Parts moved);

  // Which parts of the parameters are this node's, then those that it keeps.
  std::vector<Range> parts() const;
  // Adds the optimizer's vectors to `floats`, of those parts each, at that version: the newest that was begun or ended.
  void append_state(Version version, std::vector<float>& floats) const;

 private:
  // Those who are left go on from the formation before the newest: in that no step was made.
  bool goes_back(Version version) const { return last_ && version == newest_.since; }
  Parts make(Shares shares, Version since) const;
  OptimizerImage image_of(const Piece& piece, Version version) const;
  Status contribute_state(const Parts& from, const Shares& next, Version version, int vector,
                          std::span<float> all) const;
  static void set(Piece& piece, std::int64_t steps, std::span<const std::span<const float>> vectors);
  int vectors() const { return state_vectors(settings_.kind); }

  const OptimizerSection& settings_;
  const Layout& layout_;
  Parts newest_;
  std::optional<Parts> last_;     // of the formation before it, until a step is made in the newest
  std::optional<Version> steps_;  // from here, while a step is under way
};

}  // namespace paceline
