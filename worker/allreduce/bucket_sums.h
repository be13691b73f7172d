// BucketSums: a bucket of a node's gradients becomes its part of the mean over all workers (Goyal et al. 2017, §4): its
// threads' gradients are summed, that is reduced over the mesh, looked at, and divided. Of a sharded optimizer a bucket
// is summed, each part at one rank, and copied to all after the last one.
//
// Several buckets are under way at a time: those that are there when the ones before are done, kInFlight at most. Ranks
// need not take the same ones together (mesh.h). What is summed of threads, looked at and divided is so while others of
// them travel.
//
// It has no state of its own: what it makes lies in the formation's vector (formation_mesh.h).
//
// Thread: the exchange's.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/params/layout.h"
#include "common/params/partition.h"
#include "common/params/shared_floats.h"
#include "common/schedule/buckets.h"
#include "common/schedule/program.h"
#include "common/status.h"
#include "common/ticks.h"
#include "common/timing/bucket_span.h"
#include "worker/allreduce/formation_mesh.h"
#include "worker/allreduce/sample_weights.h"

namespace paceline {

class BucketSums {
 public:
  // Both outlive this. `is_sharded`: the optimizer. `now`: what time it is. `on_bucket`: called for each bucket that is
  // reduced; empty: nobody wants to know.
  BucketSums(FormationMesh& mesh, const Layout& layout, bool is_sharded, Ticks (*now)(),
             std::function<void(const BucketSpan&)> on_bucket);

  static constexpr std::size_t kInFlight = schedule::kBucketsInFlight;

  struct Summed {
    std::string
        not_finite;  // in the sum, of the first bucket where something is, naming its tensor; empty: all is finite
    Status reduced =
        Status::ok();  // errors: Mesh::reduce()'s; of the buckets that were whole before, not_finite is known
  };
  // Buckets `first` to `end` of the step at `clock`, of gradients by thread, each as long as the layout, as `weights`
  // weigh them; of a sharded optimizer this rank's parts of them, undivided. `with`: the formation's counts are summed,
  // too.
  Summed sum(std::size_t first, std::size_t end, Clock clock, const std::vector<SharedFloats>& own,
             const SampleWeights& weights, FormationMesh::With with);
  // Of a sharded optimizer, where a sum that is not finite is left out: what any node sees of its parts, all say.
  // Errors: Mesh::reduce()'s.
  Status share_not_finite(std::string& not_finite);
  // Of a sharded optimizer, whose parts of the vector are parameters now: to all. Errors: Mesh::reduce()'s.
  Status copy_to_all(Clock clock);
  // A part of the formation's vector becomes one of the mean, where it was not divided before it left: of gradients
  // that weigh 1 each, and then of those of so many samples together, where they weigh something else.
  void make_mean(Range part) const;
  void weigh(Range part, std::int64_t samples, std::int64_t usual) const;

 private:
  // `parts`: buckets from `first` on.
  Status reduce(std::span<const FormationMesh::Part> parts, std::size_t first, Clock clock, bool copies,
                FormationMesh::With with, const std::function<void(std::size_t number)>& on_done);
  std::string find_not_finite(std::size_t number) const;

  FormationMesh& mesh_;
  const Layout& layout_;
  const bool is_sharded_;
  Ticks (*const now_)();
  const std::function<void(const BucketSpan&)> on_bucket_;
};

}  // namespace paceline
