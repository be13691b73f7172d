#include "tests/sim/node_model.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "common/random.h"
#include "tests/sim/node_socket.h"

namespace paceline::test {

using namespace paceline::cache;

namespace {

constexpr std::int64_t kFloats = kFloatsOfAShard;
constexpr std::int64_t kFrameBytes = sizeof(float);

}  // namespace

NodeModel::NodeModel(NodeId id, std::uint32_t incarnation, Surroundings& world)
    : id_(id),
      incarnation_(incarnation),
      world_(world),
      outstanding_(world.plan.config.cluster.threads_per_node, world.plan.config.grants_ahead),
      process_(world.plan.config.shards),
      process_counts_(world.plan.config.shards) {
  const auto& config = world.plan.config;
  const step::StepRules rules{world.plan.refresh_clocks, world.plan.pulls_before_push,
                              keeps_own_updates(sync::largest_threshold(config.policy)),
                              world.plan.mini_batch, config.grants_ahead};
  for (std::uint32_t t = 0; t < config.cluster.threads_per_node; ++t) {
    Thread thread(WorkerId(id, t), rules);
    thread.taken = SnapshotStamp(config.shards);
    thread.counts.assign(config.shards, Counts(config.cluster.workers(), world.clocks));
    threads_.push_back(std::move(thread));
  }
  for (std::uint32_t s = 0; s < config.shards; ++s) {
    ServerLink link;
    link.shard = ShardId(s);
    link.endpoints = {"simulated"};
    link.range = {s * kFloats, (s + 1) * kFloats};
    link.part = {link.range, link.range, 0};
    link.socket = std::make_unique<NodeSocket>([this, server = ShardId(s)](const wire::Message& message) {
      const bool reports = std::holds_alternative<wire::StepReport>(message.body) ||
                           std::holds_alternative<wire::Leave>(message.body);
      world_.network.send(party(), reports ? kAuthorityParty : shard_party(server.value),
                          [this, server, message] { world_.receives(*this, server, message); });
    });
    links_.push_back(std::move(link));
  }
}

void NodeModel::violation(const Thread& thread, const std::string& what) {
  world_.violations.push_back("worker " + to_string(thread.id) + " at clock " +
                              to_string(thread.grant.clock) + ": " + what);
}

void NodeModel::die() {
  dead_ = true;
  world_.network.cut(party());
}

void NodeModel::on_grant(const sync::Grant& grant) {
  if (dead_ || !outstanding_.granted(grant.worker.thread, grant.clock)) return;
  Thread& thread = threads_[grant.worker.thread];
  thread.expected.push_back(grant);
  if (thread.awaits) begin(thread);
}

void NodeModel::carry_out(Thread& thread, const step::AwaitInstruction&) {
  thread.awaits = true;
  if (!thread.expected.empty()) begin(thread);
}

void NodeModel::begin(Thread& thread) {
  thread.awaits = false;
  thread.grant = thread.expected.front();
  thread.expected.pop_front();
  newest_version_ = std::max(newest_version_, thread.grant.version);
  newest_revision_ = std::max(newest_revision_, thread.grant.revision);
  if (!thread.first) thread.first = thread.grant.clock;
  thread.in_iteration = true;
  advance(thread, step::Granted{step::grant_of(thread.grant), {}, view(thread)});
}

void NodeModel::on_finish(WorkerId worker) {
  if (dead_ || !outstanding_.finished(worker.thread)) return;
  Thread& thread = threads_[worker.thread];
  thread.finished = true;
  thread.installs_early = false;
  advance(thread, step::Finished{});
}

void NodeModel::advance(Thread& thread, const step::Event& event) {
  std::vector<step::Action> actions;
  const Status stepped = thread.step.step(event, actions);
  if (!stepped.is_ok()) violation(thread, stepped.message());
  for (const step::Action& action : actions) {
    std::visit([&](const auto& a) { carry_out(thread, a); }, action);
  }
}

void NodeModel::check_finished() {
  for (const Thread& thread : threads_) {
    if (!dead_ && !thread.finished) violation(thread, "it was never told that it has finished");
  }
}

void NodeModel::broke(ShardId server) {
  ServerLink& link = links_[server.value];
  if (!link.broken) link.broken = {Ticks(world_.network.now_ns())};
}

std::optional<Ticks> NodeModel::broken_since(ShardId server) const {
  const ServerLink& link = links_[server.value];
  return link.broken ? std::optional(link.broken->since) : std::nullopt;
}

// As PsClient does after a Welcome.
void NodeModel::is_welcomed(ShardId server) {
  if (dead_ || world_.network.is_broken(party(), shard_party(server.value))) return;
  ServerLink& link = links_[server.value];
  link.broken.reset();
  const Status report_text = outstanding_.retransmit(
      link, kFrameBytes, [this](std::uint32_t, const auto&) { ++world_.retransmitted; });
  if (!report_text.is_ok())
    world_.violations.push_back("node " + to_string(id_) + ": " + report_text.message());
  for (const auto& [number, pull] : pulls_) {
    if (pull.due.count(server) == 0) continue;
    ++world_.retransmitted;
    ask(number, pull, server);
  }
}

void NodeModel::send(ShardId server, const wire::Message& message) {
  ServerLink& link = links_[server.value];
  if (!link.broken) static_cast<void>(link.socket->send(message));
}

void NodeModel::ask(int number, const Pull& pull, ShardId server) {
  send(server, {wire::Pull{static_cast<std::uint64_t>(number), pull.min_version}, {}});
}

step::View NodeModel::view(const Thread& thread) const {
  const bool installed = thread.pulled >= 0 && pulls_.count(thread.pulled) == 0;
  return {installed, {newest_version_, newest_revision_}, thread.state, process_state()};
}

void NodeModel::carry_out(Thread& thread, const step::AwaitParameters& action) {
  ++world_.server_reads;
  const int number = action.pulled_with_push ? thread.pulled : pull_or_join(action.min_version);
  pulls_[number].waiting_threads.push_back(thread.id.thread);
}

int NodeModel::pull_or_join(Version min_version) {
  for (const auto& [number, pull] : pulls_) {
    if (serves(pull.min_version, min_version, newest_version_)) return number;
  }
  return pull(min_version);
}

int NodeModel::pull(Version min_version) {
  ++world_.pulls;
  const int number = next_pull_++;
  Pull& pull = pulls_[number];
  pull.min_version = min_version;
  for (const ServerLink& link : links_) pull.due.insert(link.shard);
  for (const ServerLink& link : links_) ask(number, pull, link.shard);
  return number;
}

void NodeModel::on_answer(std::uint64_t request, ShardId shard, const SliceAnswer& answer) {
  if (dead_) return;
  const SliceStamp before = process_.slice(shard);
  if (process_.install(shard, answer.stamp)) process_counts_[shard.value] = answer.counts;
  const SliceStamp& after = process_.slice(shard);
  if (after.version < before.version || after.revision < before.revision) {
    world_.violations.push_back("node " + to_string(id_) + ": its process cache went back");
  }
  const int number = static_cast<int>(request);
  Pull& pull = pulls_[number];
  if (pull.due.erase(shard) == 0) world_.violations.push_back("node " + to_string(id_) + ": answered twice");
  if (!pull.due.empty()) return;
  const std::vector<std::uint32_t> waiting = std::move(pull.waiting_threads);
  pulls_.erase(number);
  for (const std::uint32_t t : waiting) advance(threads_[t], step::Arrived{});
  for (Thread& thread : threads_) {
    if (!thread.installs_early || thread.pulled != number) continue;
    thread.installs_early = false;
    advance(thread, step::InstalledEarly{{}, {}, process_is_newer(thread), view(thread)});
  }
}

bool NodeModel::process_is_newer(const Thread& thread) const {
  for (std::uint32_t s = 0; s < process_.shards(); ++s) {
    if (process_.slice(ShardId(s)).revision > thread.taken.slice(ShardId(s)).revision) return true;
  }
  return false;
}

void NodeModel::carry_out(Thread& thread, const step::MakeCurrent& action) {
  if (action.refresh) take_process_cache(thread);
  check_read(thread);
  advance(thread, step::ParametersCurrent{});
}

void NodeModel::carry_out(Thread& thread, const step::InstallEarly&) {
  if (pulls_.count(thread.pulled) > 0) {
    thread.installs_early = true;
  } else {
    advance(thread, step::InstalledEarly{{}, {}, false, view(thread)});
  }
}

void NodeModel::carry_out(Thread& thread, const step::Pull& action) {
  const int number = pull_or_join(action.min_version);
  if (action.when != step::PullWhen::kPrefetch) thread.pulled = number;
}

void NodeModel::take_process_cache(Thread& thread) {
  for (std::uint32_t s = 0; s < process_.shards(); ++s) {
    const SliceStamp& now = process_.slice(ShardId(s));
    const SliceStamp& before = thread.taken.slice(ShardId(s));
    if (now.version < before.version || now.revision < before.revision)
      violation(thread, "its parameters went back");
    if (process_counts_[s]) thread.counts[s] = *process_counts_[s];
  }
  thread.own.drop_contained(process_, thread.id.thread);
  for (std::uint32_t s = 0; s < process_.shards(); ++s) {
    for (const std::size_t place : thread.own.to_reapply(process_, ShardId(s), thread.id.thread)) {
      ++thread.counts[s].of(world_.plan.config.cluster.rank_of(thread.id), thread.own.stamps()[place]);
    }
  }
  thread.taken = process_;
  thread.state = {process_.version(), process_.revision(), thread.grant.clock};
}

void NodeModel::check_read(const Thread& thread) {
  const Cluster cluster = world_.plan.config.cluster;
  const Clock clock = thread.grant.clock;
  const Threshold s = thread.grant.threshold;
  const PolicyKind policy = world_.plan.config.policy.kind;
  // Backup: a late worker may have been given a newer version, to no effect.
  const bool in_time = world_.fate(thread.id, clock) != Fate::kDiscarded;
  const bool exact = policy == PolicyKind::kBsp || (policy == PolicyKind::kBackup && in_time);
  for (const Counts& slice : thread.counts) {
    for (std::uint32_t r = 0; r < cluster.workers(); ++r) {
      const WorkerId writer = cluster.worker_at(Rank(r));
      for (Clock stamp; stamp.value < world_.clocks; stamp = stamp.next()) {
        const int times = slice.of(Rank(r), stamp);
        const Fate fate = world_.fate(writer, stamp);
        const std::string which = to_string(writer) + "@" + to_string(stamp);
        // What it pushed before it was lost is to it as anybody's.
        const bool own = writer == thread.id && stamp >= *thread.first;
        if (times > 1) violation(thread, which + " is in twice");
        if (times > 0 && fate != Fate::kPushed && !own) violation(thread, which + " should not be in");
        if (fate != Fate::kPushed) continue;
        if (own && stamp < clock && times != 1) violation(thread, "read-my-writes: " + which + " is missing");
        const bool guaranteed = !s.is_infinite() && stamp.value <= clock.value - s.value() - 1;
        if (guaranteed && times != 1) violation(thread, "model state: " + which + " is missing");
        if (exact && (times == 1) != (stamp < clock))
          violation(thread, "exact: " + which + " is not of this version");
      }
    }
  }
}

std::int64_t NodeModel::local_steps(const Thread& thread) const {
  return step::local_steps_of({thread.grant.position, thread.grant.samples}, world_.plan.mini_batch);
}

void NodeModel::carry_out(Thread& thread, const step::LoadBatch&) {
  advance(thread, step::BatchLoaded{view(thread)});
}

void NodeModel::carry_out(Thread& thread, const step::Compute& action) {
  thread.local_step = action.local_step;
  thread.own_updates = std::ssize(thread.own.stamps());
  const double share =
      static_cast<double>(thread.grant.samples) / static_cast<double>(world_.plan.config.batch_size);
  const double factor = world_.plan.slowdown[id_.value] * (0.5 + world_.network.random().next_double()) *
                        share / static_cast<double>(local_steps(thread));
  world_.network.after(static_cast<std::int64_t>(factor * 1e6),
                       [this, t = thread.id.thread] { finish_step(threads_[t]); });
}

void NodeModel::finish_step(Thread& thread) {
  if (dead_) return;
  const auto leaves = world_.plan.leaves_at.find(thread.id);
  if (incarnation_ == 0 && leaves != world_.plan.leaves_at.end() && leaves->second <= thread.grant.clock) {
    leave();
    return;
  }
  const bool last = thread.local_step + 1 == local_steps(thread);
  thread.spoiled = !last && world_.network.random().next_double() < world_.plan.nan_chance;
  if (last || thread.spoiled) thread.pulled = -1;
  advance(thread, step::GradientComputed{view(thread), !thread.spoiled});
}

void NodeModel::carry_out(Thread& thread, const step::CheckGradient&) {
  CounterRandom& random = world_.network.random();
  const bool finite = !thread.spoiled && random.next_double() >= world_.plan.nan_chance;
  thread.metric = {};
  if (finite) {
    const std::int64_t samples = thread.grant.samples;
    const auto correct =
        static_cast<std::int64_t>(1 + random.next_below(static_cast<std::uint64_t>(samples)));
    thread.metric = {10.0 + random.next_double() * 10.0, correct, samples};
  }
  advance(thread, step::GradientChecked{finite});
}

void NodeModel::carry_out(Thread& thread, const step::ApplyLocally&) {
  const Rank rank = world_.plan.config.cluster.rank_of(thread.id);
  for (Counts& slice : thread.counts) ++slice.of(rank, thread.grant.clock);
  thread.own.remember(thread.grant.clock);
  advance(thread, step::AppliedLocally{});
}

void NodeModel::carry_out(Thread& thread, const step::Contribute&) {
  const bool corrupt = world_.network.random().next_double() < world_.plan.corrupt_chance;
  // It may be late, and dropped already.
  world_.fates.try_emplace({thread.id, thread.grant.clock}, corrupt ? Fate::kCorrupt : Fate::kPushed);
  push(thread, true);
}

void NodeModel::carry_out(Thread& thread, const step::Report& action) {
  thread.in_iteration = false;
  wire::StepReport report;
  report.worker = thread.id;
  report.clock = thread.grant.clock;
  report.computed_version = thread.state.version;
  report.computed_revision = thread.state.revision;
  report.own_updates = thread.own_updates;
  report.metric = thread.metric;
  report.skipped = action.skipped;
  if (action.skipped) report.fault = "loss";
  if (!action.skipped && reports_other_samples()) {
    wire::StepReport other = report;
    other.metric.samples += 8;
    send(kAuthority, {other, {}});
  }
  outstanding_.reported(report);
  send(kAuthority, {report, {}});
  advance(thread, step::Sent{view(thread)});
}

// It is gone in the middle of its threads' iterations: of each it has sent half or all, and of none a report.
// What was sent still arrives, mostly before the loss is noticed.
void NodeModel::leave() {
  dead_ = true;
  CounterRandom& random = world_.network.random();
  for (Thread& thread : threads_) {
    if (!thread.in_iteration) continue;
    const bool whole = random.next_below(2) == 0;
    if (whole) world_.fates.try_emplace({thread.id, thread.grant.clock}, Fate::kPushed);
    push(thread, whole);
  }
  const auto unnoticed = static_cast<std::int64_t>(random.next_below(20'000'000));
  world_.network.after(unnoticed, [this] { send(kAuthority, {wire::Leave{"it leaves"}, {}}); });
}

// Something that is to be refused, and changes nothing, comes before the truth.
bool NodeModel::reports_other_samples() {
  const double chance = world_.plan.other_samples_chance;
  return chance > 0.0 && world_.network.random().next_double() < chance;
}

// Two halves to each shard; `whole` false: only the first half. What is corrupt is so for one of them.
void NodeModel::push(Thread& thread, bool whole) {
  const std::uint32_t shards = world_.plan.config.shards;
  const std::uint64_t bad_shard = world_.network.random().next_below(shards);
  auto floats = std::make_shared<std::vector<float>>(shards * kFloats, 1.0F);
  if (world_.fate(thread.id, thread.grant.clock) == Fate::kCorrupt)
    (*floats)[bad_shard * kFloats] = std::numeric_limits<float>::quiet_NaN();
  GradientPart part;
  part.push = {.worker = thread.id, .clock = thread.grant.clock, .samples = thread.grant.samples};
  part.values = SharedFloats(floats);
  part.whole = part.part = part.values.owner;
  part.floats = ShardParts(shards, Range{whole ? 0 : 1, kFloats});
  outstanding_.pushed(part);
  for (ServerLink& link : links_) {
    if (!link.broken) static_cast<void>(part.send(link, kFrameBytes));
  }
}

}  // namespace paceline::test
