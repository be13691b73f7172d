// Checkpoints as they are under way, and the crash of all servers: what was saved last, whole, is left.
#include <utility>

#include "tests/sim/end_checks.h"
#include "tests/sim/generation.h"

namespace paceline::test {

using namespace paceline::sync;

bool Generation::saves(const AuthorityModel& authority) {
  if (generation_ >= plan_.crashes_at_ns.size() || being_saved_ || network_.random().next_below(4) > 0)
    return false;
  being_saved_ =
      std::make_shared<Checkpoint>(authority.engine().state(), authority.checker(), std::set<std::int64_t>{});
  images_.assign(shards_.size(), nullptr);
  parts_saved_ = 0;
  return true;
}

void Generation::complete_save() {
  being_saved_->iterations = iterations_in(*images_[0]);
  for (const auto& image : images_) {
    if (!(*image == *images_[0])) violations_.push_back("the shards have saved different gradients");
  }
  if (std::ssize(being_saved_->iterations) != being_saved_->state.revision.value)
    violations_.push_back("the shards have saved another revision than the authority");
  saved_ = std::exchange(being_saved_, nullptr);
}

std::set<std::int64_t> Generation::iterations_in(const Counts& counts) {
  const std::set<std::int64_t> before = from_ == nullptr ? std::set<std::int64_t>{} : from_->iterations;
  return test::iterations_in(counts, granted_, plan_.config.cluster, before, violations_);
}

void Generation::crash() {
  if (authority_.engine().finished()) return;
  if (saved_ == nullptr) return network_.after(1'000'000, [this] { crash(); });
  crashed_ = true;
  ++faults_.server_crashes;
  faults_.done_again += authority_.engine().revision().value - saved_->state.revision.value;
  const std::int64_t applied = saved_->state.revision.value + saved_->state.skipped;
  const std::int64_t version = saved_->state.version.value;
  if (applied > version * plan_.config.cluster.workers()) ++faults_.ahead;
}

}  // namespace paceline::test
