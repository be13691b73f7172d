#include "simulate/training.h"

#include <algorithm>
#include <utility>

#include "common/caffe/colours.h"
#include "common/params/shard_ranges.h"
#include "server/store/decision.h"
#include "simulate/local_updates.h"
#include "worker/train/warm_start.h"

namespace paceline::simulate {
namespace {

// Appends the blocks' floats.
void append(std::vector<float>& flat, const BlockRange& blocks) {
  for (std::int64_t i = 0; i < blocks.block_count(); ++i) {
    const std::span<const float> block = blocks.block(i);
    flat.insert(flat.end(), block.begin(), block.end());
  }
}

// Gradients that are kept for the next ones: whoever computes next finds one.
constexpr std::size_t kGradientsKept = 64;

}  // namespace

Training::Training(const Plan& plan, TaskFactory& tasks, NormMeeting* meeting, std::span<const float> initial)
    : plan_(plan),
      tasks_(tasks),
      meeting_(meeting),
      ranges_(shard_ranges(tasks.layout(), plan.config.train.optimizer, plan.config.cluster.shards)),
      slices_(ranges_of(plan.slices)),
      limits_(batch_limits(plan.config)),
      gradients_(std::max<std::int64_t>(1, plan.floats), kGradientsKept) {
  for (std::uint32_t k = 0; k < ranges_.size(); ++k) {
    const auto part = initial.subspan(static_cast<std::size_t>(ranges_[k].begin),
                                      static_cast<std::size_t>(ranges_[k].size()));
    shards_.emplace_back(ShardId(k), ranges_[k], tasks_.layout(), plan.config, part);
  }
  nodes_.resize(plan.cluster.nodes);
  workers_.resize(plan.cluster.workers());
  if (meeting != nullptr) {
    begun_.resize(plan.cluster.workers());
    made_.resize(plan.cluster.workers());
  }
  for (std::uint32_t n = 0; n < plan.cluster.nodes; ++n) make_caches(NodeId(n));
}

void Training::make_caches(NodeId node) {
  nodes_[node.value] = std::make_unique<ProcessCache>(slices_);
  for (std::uint32_t t = 0; t < plan_.cluster.threads_per_node; ++t) {
    const WorkerId worker(node, t);
    workers_[plan_.cluster.rank_of(worker).value] =
        std::make_unique<TrainingWorker>(plan_, worker, ranges_, tasks_.layout());
  }
}

Result<std::unique_ptr<Training>> Training::begin(const Plan& plan, TaskFactory& tasks,
                                                  NormMeeting* meeting) {
  PACELINE_ASSERT(plan.floats == tasks.layout().size(), "a plan for another model");
  std::vector<float> initial(static_cast<std::size_t>(plan.floats));
  tasks.initialize(initial);
  if (!plan.config.train.init_from.empty()) {
    const auto taken = caffe::take_init_from(plan.config, tasks.layout(), initial);
    if (!taken.is_ok()) return Status(taken.status()).with_context("train.init_from");
  }
  PACELINE_RETURN_IF_ERROR(warm_start(plan.config, tasks, initial, Status::ok));
  std::unique_ptr<Training> training(new Training(plan, tasks, meeting, initial));
  PACELINE_RETURN_IF_ERROR(training->make_trainers());
  return training;
}

Status Training::make_trainers() {
  if (meeting_ != nullptr) {
    PACELINE_ASSIGN_OR_RETURN(
        group_, GroupTrainers::begin(plan_.config.train.batch_norm_group, [this](std::uint32_t member) {
          return tasks_.make_trainer(WorkerId(NodeId(member), 0));
        }));
    return Status::ok();
  }
  const std::uint32_t needed = tasks_.trainers_are_alike() ? 1 : plan_.cluster.workers();
  for (std::uint32_t r = 0; r < needed; ++r) {
    PACELINE_ASSIGN_OR_RETURN(auto task, tasks_.make_trainer(plan_.cluster.worker_at(Rank(r))));
    trainers_.push_back(std::move(task));
  }
  return Status::ok();
}

void Training::begins(const Computation::Step& step) {
  if (group_ != nullptr) begun_[step.worker.value] = step;
}

Computation::Computed Training::compute(const Computation::Step& step) {
  std::optional<Made> made;
  if (group_ == nullptr) {
    made = make(trainer(step.worker), step);
  } else {
    const std::uint32_t group = plan_.config.train.batch_norm_group;
    if (!made_[step.worker.value]) make_group(step.worker.value / group * group);
    made.swap(made_[step.worker.value]);
  }
  require(made->status);
  return made->computed;
}

// Of all members of the group whose lowest rank is `first`.
void Training::make_group(std::uint32_t first) {
  group_->run([&](std::uint32_t member, Task& task) {
    const Computation::Step& step = begun_[first + member];
    PACELINE_ASSERT(step.clock == begun_[first].clock,
                    "members at clocks " + to_string(step.clock) + " and " + to_string(begun_[first].clock));
    Made made = make(task, step);
    if (!made.status.is_ok()) meeting_->end(aborted("another member of its group has no gradient"));
    made_[first + member] = std::move(made);
  });
  // Whoever has ended the meeting says why; the others waited for it.
  for (std::uint32_t member = 0; member < plan_.config.train.batch_norm_group; ++member) {
    const Status& status = made_[first + member]->status;
    if (status.code() != StatusCode::kAborted) require(status);
  }
}

// Thread: any, of each worker one at a time.
Training::Made Training::make(Task& task, const Computation::Step& step) {
  TrainingWorker& worker = *workers_[step.worker.value];
  const WorkerId id = plan_.cluster.worker_at(step.worker);
  const cache::SnapshotStamp& stamp = worker.cache().stamp();
  PACELINE_ASSERT(stamp.version() == step.version && stamp.revision() == step.revision,
                  "worker " + to_string(id) + " has version " + to_string(stamp.version()) +
                      ", and is to compute with " + to_string(step.version));
  Made made;
  Computation::Computed& computed = made.computed;
  auto metric = worker.compute(task,
                               {id, step.clock, step.iteration, step.threshold, step.min_version,
                                step.version, step.revision, step.batch, step.local_step, step.local_steps},
                               tasks_.layout(), gradients_, computed.fault);
  Status done = metric.status();
  if (done.is_ok()) done = limits_.check_counted(step.batch, *metric);
  if (done.is_ok()) {
    computed.metric = *metric;
  } else {
    made.status =
        std::move(done).with_context("worker " + to_string(id) + " at clock " + to_string(step.clock));
    computed.metric.samples = step.batch.samples;
    computed.fault = "no gradient";  // the run is over: nobody will look for one
  }
  return made;
}

void Training::apply_locally(Rank worker, const sync::Grant& grant) {
  workers_[worker.value]->apply_locally(server::grant_of(plan_.config, grant));
}

void Training::refresh(Rank worker, Clock now, const cache::SnapshotStamp& taken) {
  ThreadCache& cache = workers_[worker.value]->cache();
  const WorkerId id = plan_.cluster.worker_at(worker);
  cache.refresh(nodes_[id.node.value]->snapshot(), now);
  for (std::uint32_t k = 0; k < taken.shards(); ++k) {
    const cache::SliceStamp& has = cache.stamp().slice(ShardId(k));
    const cache::SliceStamp& expected = taken.slice(ShardId(k));
    PACELINE_ASSERT(has.version == expected.version && has.revision == expected.revision,
                    "worker " + to_string(id) + " took revision " + to_string(has.revision) + " of shard " +
                        std::to_string(k) + ", expected " + to_string(expected.revision));
  }
}

void Training::apply_deferred(Rank worker) {
  ThreadCache& cache = workers_[worker.value]->cache();
  cache.apply_deferred();
  while (cache.gradients() >= LocalUpdates::kBuffersMax) cache.keep_difference();
}

std::string Training::push_taken(ShardId shard, Rank worker, Clock clock) {
  TrainingWorker& from = *workers_[worker.value];
  auto fault = shards_[shard.value].push(from.sent(shard, clock), from.take(shard, clock));
  if (fault.is_ok()) return std::move(fault).value();
  require(fault.status());
  return "";
}

void Training::apply(ShardId shard, wire::ApplyDecision decision) {
  const bool retain = std::exchange(decision.retain, false);
  TrainingShard& applies = shards_[shard.value];
  require(applies.apply(decision));
  if (!retain) return;
  std::vector<BlockRange>& retained = retained_[decision.version_after];
  retained.resize(shards_.size());
  retained[shard.value] = applies.now().blocks;
}

void Training::discard(const sync::Discard& discard) {
  for (TrainingShard& shard : shards_) shard.discard(discard.worker, discard.clock);
}

void Training::answer(std::uint32_t pull, ShardId shard, std::int64_t fragment, NodeId node,
                      cache::SliceStamp& stamp) {
  if (pull >= answers_.size()) answers_.resize(pull + 1);
  answers_[pull].resize(shards_.size());
  const Range part = slices_[*plan_.slice_of(shard, fragment)];
  auto slice = shards_[shard.value].answer(node, stamp.version, stamp.revision, part);
  stamp.applied = slice->stamp.applied;
  answers_[pull][shard.value] = std::move(slice);
}

void Training::confirm(ShardId shard, NodeId node, cache::SliceStamp& stamp) {
  stamp.applied = shards_[shard.value].confirm(node, stamp.version, stamp.revision);
}

void Training::install(NodeId node, std::uint32_t pull, ShardId shard, ShardId slice) {
  nodes_[node.value]->install(slice, std::exchange(answers_[pull][shard.value], nullptr));
}

void Training::comes_back(NodeId node) {
  make_caches(node);
  for (TrainingShard& shard : shards_) shard.forget(node);
  if (tasks_.trainers_are_alike()) return;
  for (std::uint32_t t = 0; t < plan_.cluster.threads_per_node; ++t) {
    const WorkerId worker(node, t);
    auto task = tasks_.make_trainer(worker);
    require(task.status());
    if (task.is_ok()) trainers_[plan_.cluster.rank_of(worker).value] = std::move(task).value();
  }
}

void Training::confirmed(NodeId node, ShardId slice, const cache::SliceStamp& stamp) {
  nodes_[node.value]->confirm(slice, stamp);
}

Metric Training::evaluate(Version version) {
  const auto retained = retained_.extract(version);
  PACELINE_ASSERT(!retained.empty(), "version " + to_string(version) + " is not retained");
  std::vector<float> flat;
  flat.reserve(static_cast<std::size_t>(plan_.floats));
  for (const BlockRange& blocks : retained.mapped()) append(flat, blocks);
  return evaluate(flat);
}

std::vector<float> Training::parameters() const {
  std::vector<float> flat;
  flat.reserve(static_cast<std::size_t>(plan_.floats));
  for (const TrainingShard& shard : shards_) append(flat, shard.now().blocks);
  return flat;
}

Metric Training::evaluate(std::span<const float> parameters) {
  if (evaluator_ == nullptr) {
    auto made = tasks_.make_evaluator();
    require(made.status());
    if (!made.is_ok()) return {};
    evaluator_ = std::move(made).value();
  }
  const auto metric = evaluator_->evaluate(parameters);
  require(metric.status());
  return metric.is_ok() ? *metric : Metric{};
}

}  // namespace paceline::simulate
