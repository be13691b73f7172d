#include "common/sync/batch_plan.h"

#include "common/assert.h"

namespace paceline::sync {

BatchPlan::BatchPlan(BatchSizing sizing, Cluster cluster, std::int64_t batch_size, std::int64_t batch_step,
                     std::int64_t total_iterations)
    : workers_(cluster.workers()), batch_size_(batch_size), whole_clocks_(total_iterations / workers_) {
  if (sizing == BatchSizing::kEqual) return;
  balance_.emplace(cluster, batch_size, batch_step);
  take_sizes();
}

std::shared_ptr<const BatchPlan::Table> BatchPlan::table_of(const BatchSizes& sizes) {
  Table table{sizes, {}};
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    table.begins.push_back(begin);
    begin += size;
  }
  return std::make_shared<const Table>(std::move(table));
}

void BatchPlan::take_sizes() {
  current_ = {table_of(balance_->sizes()), 0};
  const BatchSizes& sizes = current_.table->sizes;
  for (std::uint32_t r = 0; r < sizes.size(); ++r) {
    if (!balance_->lost(Rank(r))) current_.samples += sizes[r];
  }
}

BatchPart BatchPlan::part(Rank worker, Clock clock, std::int64_t iteration) {
  if (!balance_ || clock >= whole_clocks_) return {iteration * batch_size_, batch_size_};
  PACELINE_ASSERT(clock >= oldest_, "clock " + to_string(clock) + " is forgotten");
  while (oldest_.value + std::ssize(tables_) <= clock.value) {
    const std::int64_t next = oldest_.value + std::ssize(tables_);
    if (next % BatchBalance::kReviewClocks == 0 && balance_->review()) take_sizes();
    tables_.push_back(current_);
  }
  const Table& table = *tables_[static_cast<std::size_t>((clock - oldest_).value)].table;
  return {clock.value * workers_ * batch_size_ + table.begins[worker.value], table.sizes[worker.value]};
}

std::int64_t BatchPlan::clock_samples(Clock clock, std::int64_t contributors) const {
  if (!balance_ || clock >= whole_clocks_) return contributors * batch_size_;
  const auto place = static_cast<std::size_t>((clock - oldest_).value);
  PACELINE_ASSERT(clock >= oldest_ && place < tables_.size(),
                  "clock " + to_string(clock) + " is not settled");
  return tables_[place].samples;
}

void BatchPlan::lose(Rank worker, Clock from) {
  if (!balance_ || balance_->lost(worker)) return;
  balance_->lose(worker);
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const bool completed = oldest_.value + static_cast<std::int64_t>(i) < from.value;
    if (!completed) tables_[i].samples -= tables_[i].table->sizes[worker.value];
  }
  current_.samples -= current_.table->sizes[worker.value];
}

void BatchPlan::resume(const BatchSizes& sizes, Clock begin) {
  forget_below(begin);
  if (!balance_) return;
  balance_->resume(sizes);
  take_sizes();
}

void BatchPlan::observe(Rank worker, std::int64_t samples, std::chrono::nanoseconds length, Seen seen) {
  if (balance_) balance_->observe(worker, samples, length, seen);
}

void BatchPlan::forget_below(Clock clock) {
  for (; oldest_ < clock && !tables_.empty(); oldest_ = oldest_.next()) tables_.pop_front();
  if (tables_.empty()) oldest_ = std::max(oldest_, clock);
}

}  // namespace paceline::sync
