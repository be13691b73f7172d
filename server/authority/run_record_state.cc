// Field by field, there and back.
#include "server/authority/run_record_state.h"

#include <algorithm>

#include "proto/run_record.pb.h"

namespace paceline::server {
namespace {

// So that sums of any of them fit into 64 bits.
constexpr std::int64_t kCountMax = std::int64_t{1} << 50;

Status unexpected(const std::string& field, const std::string& got, const std::string& expected) {
  return data_loss("run record: " + field + ": got " + got + ", expected " + expected);
}

Status expect_count(const std::string& field, std::int64_t got, std::int64_t least = 0) {
  if (got >= least && got <= kCountMax) return Status::ok();
  return unexpected(field, std::to_string(got), std::to_string(least) + " to " + std::to_string(kCountMax));
}

void put(const StalenessCounts& counts, proto::StalenessHistogram& out) {
  out.set_sum(counts.sum);
  out.set_max(counts.max);
  for (const auto& [bucket, count] : counts.histogram) {
    out.add_bucket(bucket);
    out.add_count(count);
  }
}

Result<StalenessCounts> counts_of(const proto::StalenessHistogram& in) {
  StalenessCounts counts;
  if (in.bucket_size() != in.count_size()) {
    return unexpected("staleness", std::to_string(in.count_size()) + " counts",
                      std::to_string(in.bucket_size()) + ", one for each bucket");
  }
  PACELINE_RETURN_IF_ERROR(expect_count("staleness.sum", in.sum()));
  PACELINE_RETURN_IF_ERROR(expect_count("staleness.max", in.max()));
  counts.sum = in.sum();
  counts.max = in.max();
  std::int64_t next = 0;
  for (int i = 0; i < in.bucket_size(); ++i) {
    const std::int64_t bucket = in.bucket(i);
    if (bucket < next || bucket > 0xFFFF) {
      return unexpected("staleness.bucket", std::to_string(bucket), std::to_string(next) + " to 65535");
    }
    next = bucket + 1;
    PACELINE_RETURN_IF_ERROR(expect_count("staleness.count", in.count(i), 1));
    PACELINE_RETURN_IF_ERROR(expect_count("staleness.count, together", counts.count + in.count(i)));
    counts.count += in.count(i);
    counts.histogram.emplace_back(static_cast<std::uint16_t>(bucket), in.count(i));
  }
  return counts;
}

template <typename List>
Result<std::vector<std::int64_t>> sizes_of(const List& in, Cluster cluster) {
  if (static_cast<std::uint32_t>(in.size()) != cluster.workers()) {
    return unexpected("batch sizes", std::to_string(in.size()), std::to_string(cluster.workers()));
  }
  std::vector<std::int64_t> sizes(in.begin(), in.end());
  for (const std::int64_t size : sizes) PACELINE_RETURN_IF_ERROR(expect_count("batch size", size));
  return sizes;
}

Status get_batch_sizes(const proto::RunRecord& in, Cluster cluster, RunRecordState& state) {
  if (in.last_batch_sizes_size() == 0) return Status::ok();
  WorkerBatchSizes& sizes = state.batch_sizes.emplace();
  PACELINE_ASSIGN_OR_RETURN(sizes.last, sizes_of(in.last_batch_sizes(), cluster));
  PACELINE_ASSIGN_OR_RETURN(sizes.smallest, sizes_of(in.smallest_batch_sizes(), cluster));
  PACELINE_ASSIGN_OR_RETURN(sizes.largest, sizes_of(in.largest_batch_sizes(), cluster));
  return Status::ok();
}

Status get_loss_scales(const proto::RunRecord& in, Cluster cluster, RunRecordState& state) {
  if (in.loss_scales_size() == 0) return Status::ok();
  for (const int size : {in.loss_scales_size(), in.loss_scale_steps_size()}) {
    if (static_cast<std::uint32_t>(size) == cluster.workers()) continue;
    return unexpected("loss scales", std::to_string(size), std::to_string(cluster.workers()));
  }
  for (int r = 0; r < in.loss_scales_size(); ++r) {
    const LossScale scale{in.loss_scales(r), in.loss_scale_steps(r)};
    if (!scale.is_valid())
      return unexpected("loss scale", std::to_string(scale.scale), "0, or a power of two up to 2^24");
    state.loss_scales.push_back(scale);
  }
  return Status::ok();
}

}  // namespace

std::string to_bytes(const RunRecordState& state) {
  proto::RunRecord out;
  for (const PolicyChange& change : state.switches) {
    proto::SwitchedPolicy& switched = *out.add_switches();
    switched.set_policy(change.policy);
    switched.set_version(change.version.value);
    switched.set_seconds(change.seconds);
    switched.set_infinite(change.threshold.is_infinite());
    if (!change.threshold.is_infinite()) switched.set_threshold(change.threshold.value());
  }
  out.set_lost_nodes(state.churn.lost_nodes);
  for (const std::string& lost : state.churn.lost) out.add_lost(lost);
  out.set_returned_nodes(state.churn.returned_nodes);
  for (const std::string& returned : state.churn.returned) out.add_returned(returned);
  out.set_late_nodes(state.churn.late_nodes);
  for (const std::string& late : state.churn.late) out.add_late(late);
  for (const NodeId node : state.churn.away) out.add_away(node.value);
  for (const WorkerStaleness& worker : state.staleness) {
    proto::StalenessOfWorker& both = *out.add_staleness();
    put(worker.clocks, *both.mutable_clocks());
    put(worker.gradients, *both.mutable_gradients());
  }
  if (state.batch_sizes) {
    for (const std::int64_t size : state.batch_sizes->last) out.add_last_batch_sizes(size);
    for (const std::int64_t size : state.batch_sizes->smallest) out.add_smallest_batch_sizes(size);
    for (const std::int64_t size : state.batch_sizes->largest) out.add_largest_batch_sizes(size);
  }
  for (const LossScale& scale : state.loss_scales) {
    out.add_loss_scales(scale.scale);
    out.add_loss_scale_steps(scale.good_steps);
  }
  if (state.train_loss) out.set_train_loss(*state.train_loss);
  if (state.train_accuracy) out.set_train_accuracy(*state.train_accuracy);
  if (state.test_accuracy) out.set_test_accuracy(*state.test_accuracy);
  if (state.lpr) out.set_lpr(*state.lpr);
  out.set_checkpoints(state.checkpoints);
  out.set_checkpoints_failed(state.checkpoints_failed);
  return out.SerializeAsString();
}

Result<RunRecordState> run_record_from_bytes(std::string_view bytes, Cluster cluster) {
  proto::RunRecord in;
  if (!in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return unexpected("all of it", std::to_string(bytes.size()) + " bytes that are none",
                      "proto/run_record.proto's RunRecord");
  }
  RunRecordState state;
  for (const proto::SwitchedPolicy& change : in.switches()) {
    PACELINE_RETURN_IF_ERROR(expect_count("switches.version", change.version()));
    PACELINE_RETURN_IF_ERROR(expect_count("switches.threshold", change.threshold()));
    state.switches.push_back({change.policy(), Version(change.version()), change.seconds(),
                              change.infinite() ? Threshold::infinite() : Threshold(change.threshold())});
  }
  PACELINE_RETURN_IF_ERROR(expect_count("lost_nodes", in.lost_nodes()));
  state.churn.lost_nodes = in.lost_nodes();
  state.churn.lost.assign(in.lost().begin(), in.lost().end());
  PACELINE_RETURN_IF_ERROR(expect_count("returned_nodes", in.returned_nodes()));
  state.churn.returned_nodes = in.returned_nodes();
  state.churn.returned.assign(in.returned().begin(), in.returned().end());
  PACELINE_RETURN_IF_ERROR(expect_count("late_nodes", in.late_nodes()));
  state.churn.late_nodes = in.late_nodes();
  state.churn.late.assign(in.late().begin(), in.late().end());
  for (const std::uint32_t node : in.away()) {
    if (node >= cluster.nodes) {
      return unexpected("away", "node " + std::to_string(node), "one of " + std::to_string(cluster.nodes));
    }
    state.churn.away.insert(NodeId(node));
  }
  if (static_cast<std::uint32_t>(in.staleness_size()) != cluster.workers()) {
    return unexpected("staleness", std::to_string(in.staleness_size()) + " workers",
                      std::to_string(cluster.workers()));
  }
  for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
    WorkerStaleness& worker = state.staleness.emplace_back();
    worker.worker = cluster.worker_at(Rank(r));
    PACELINE_ASSIGN_OR_RETURN(worker.clocks, counts_of(in.staleness(static_cast<int>(r)).clocks()));
    PACELINE_ASSIGN_OR_RETURN(worker.gradients, counts_of(in.staleness(static_cast<int>(r)).gradients()));
  }
  PACELINE_RETURN_IF_ERROR(get_batch_sizes(in, cluster, state));
  PACELINE_RETURN_IF_ERROR(get_loss_scales(in, cluster, state));
  if (in.has_train_loss()) state.train_loss = in.train_loss();
  if (in.has_train_accuracy()) state.train_accuracy = in.train_accuracy();
  if (in.has_test_accuracy()) state.test_accuracy = in.test_accuracy();
  if (in.has_lpr()) state.lpr = in.lpr();
  PACELINE_RETURN_IF_ERROR(expect_count("checkpoints", in.checkpoints()));
  PACELINE_RETURN_IF_ERROR(expect_count("checkpoints_failed", in.checkpoints_failed()));
  state.checkpoints = in.checkpoints();
  state.checkpoints_failed = in.checkpoints_failed();
  return state;
}

}  // namespace paceline::server
