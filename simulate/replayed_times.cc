#include "simulate/replayed_times.h"

#include <string>
#include <utility>

#include "common/fnv1a.h"

namespace paceline::simulate {
namespace {

class Replayed final : public ComputeTimes {
 public:
  explicit Replayed(std::vector<std::vector<std::int64_t>> lengths) : lengths_(std::move(lengths)) {}

  std::chrono::nanoseconds length(Rank worker, Clock clock) const override {
    const std::vector<std::int64_t>& own = lengths_[worker.value];
    return std::chrono::nanoseconds(own[static_cast<std::size_t>(clock.value) % own.size()]);
  }

 private:
  std::vector<std::vector<std::int64_t>> lengths_;  // ns, by rank
};

}  // namespace

Result<ReplayedTimes> replayed_times(const trace::Trace& recorded, const Cluster& cluster) {
  std::vector<std::vector<std::int64_t>> lengths(cluster.workers());
  std::string bytes;
  for (std::uint32_t r = 0; r < lengths.size(); ++r) {
    const WorkerId worker = cluster.worker_at(Rank(r));
    if (const trace::WorkerSpans* const spans = recorded.find(worker)) {
      for (const PhaseSpan& span : spans->spans) {
        if (span.phase != Phase::kComputeGrads || span.length.count() <= 0) continue;
        lengths[r].push_back(span.length.count());
        bytes += std::to_string(span.length.count()) + ",";
      }
    }
    bytes += "\n";
    if (!lengths[r].empty()) continue;
    return failed_precondition("worker " + to_string(worker) + " has no COMPUTE_GRADS in trace.json");
  }
  return ReplayedTimes{std::make_unique<Replayed>(std::move(lengths)), fnv1a(bytes)};
}

}  // namespace paceline::simulate
