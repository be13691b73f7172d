#include "simulate/server.h"

#include <algorithm>

namespace paceline::simulate {
namespace {

// A shard of more is applied by several threads (cluster.apply_threads).
constexpr std::int64_t kLargeShardFloats = 4 * 1024 * 1024;

}  // namespace

Server::Server(ShardId id, const Plan& plan, Events& events, Network& network, Pulls& pulls,
               Training* training)
    : id_(id),
      plan_(plan),
      events_(events),
      network_(network),
      pulls_(pulls),
      training_(training),
      applied_(is_ever_eager(plan.engine.policy.stages, plan.engine.apply) ? ApplyMode::kEager
                                                                           : ApplyMode::kVersioned,
               plan.cluster.workers(), plan.missing_max + 1),
      answered_(plan.cluster.nodes, State{kNoVersion, kNoRevision}) {}

void Server::push_arrives(std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  // Stages have a thread each, and none comes back.
  const NodeId node(plan_.of_stage.empty() ? 0 : worker);
  const Transfer& gradient = plan_.shards_of(node)[id_.value].gradient;
  bytes_pushed_ += gradient.bytes;
  // At the authority's shard the report is after it.
  const std::int64_t messages = gradient.messages + (id_ == kAuthority ? 1 : 0);
  events_.at(loop_.take(messages * plan_.costs.message, now),
             {EventKind::kPushTaken, id_.value, worker, stamp});
}

void Server::report_arrives(std::uint32_t worker, std::uint32_t stamp, Ticks now) {
  events_.at(loop_.take(plan_.costs.message, now), {EventKind::kReportTaken, worker, 0, stamp});
}

std::chrono::nanoseconds Server::apply_time(std::size_t contributors) const {
  const std::int64_t floats = plan_.shards[id_.value].floats;
  const double threads = floats > kLargeShardFloats ? plan_.apply_threads : 1;
  return length_of(plan_.costs.apply_ns_per_float * static_cast<double>(floats) *
                   static_cast<double>(contributors) / threads);
}

void Server::decision_arrives(std::uint32_t decision, std::size_t contributors, Ticks now) {
  // The authority tells itself without a message.
  const auto message = id_ == kAuthority ? std::chrono::nanoseconds(0) : plan_.costs.message;
  events_.at(loop_.take(message + apply_time(contributors), now),
             {EventKind::kDecisionApplied, id_.value, decision});
}

void Server::apply(const sync::Apply& decision, Ticks now) {
  for (const sync::Contributor& c : decision.contributors) {
    applied_.note(plan_.cluster.rank_of(c.worker), c.clock, decision.revision_after);
  }
  for (const sync::SkippedIteration& s : decision.skipped) {
    applied_.note(plan_.cluster.rank_of(s.worker), s.clock, decision.revision_after);
  }
  version_ = decision.version_after;
  revision_ = decision.revision_after;
  answer_ready(now);
}

void Server::pull_arrives(std::uint32_t pull, Ticks now) {
  events_.at(loop_.take(plan_.costs.message, now), {EventKind::kPullTaken, id_.value, pull});
}

void Server::take_pull(std::uint32_t pull, Ticks now) {
  ++pulls_taken_;
  if (!answer(pull, now)) waiting_.push_back(pull);
}

// ReplyWindow::source(), in its order.
Server::Source Server::source(const Pull& pull) {
  const Revision have = pull.have[id_.value];
  const State current{version_, revision_};
  if (version_ < pull.min_version) return {};
  if (!in_replies_ || in_replies_->state.revision == revision_ || have == revision_) {
    return {have == revision_ ? Answer::kUnchanged : Answer::kParameters, current};
  }
  const State& answered = answered_[pull.node.value];
  const bool can_go_on = will_do(answered, pull);
  const State& older = in_replies_->state;
  const bool is_new = plan_.is_part(pull.node, id_, pull.fragment) ? older.revision >= answered.revision
                                                                   : older.revision > answered.revision;
  const bool joins = is_new && older.revision > have && older.version >= pull.min_version;
  if (joins && !(in_replies_->awaited && can_go_on)) return {Answer::kParameters, older};
  if (can_go_on) return {Answer::kUnchanged, answered};
  in_replies_->awaited = true;
  return {};
}

bool Server::will_do(const State& held, const Pull& pull) const {
  if (held.revision == kNoRevision || held.revision != pull.have[id_.value] ||
      held.version < pull.min_version) {
    return false;
  }
  for (std::uint32_t t = 0; t < plan_.cluster.threads_per_node; ++t) {
    const Rank rank = plan_.cluster.rank_of(WorkerId(pull.node, t));
    const Staleness missing =
        applied_.at(rank, version_, revision_) - applied_.at(rank, held.version, held.revision);
    if (missing.value > plan_.missing_max) return false;
  }
  return true;
}

// False: it has to wait.
bool Server::answer(std::uint32_t place, Ticks now) {
  Pull& pull = pulls_[place];
  const Source from = source(pull);
  if (from.answer == Answer::kLater) return false;
  confirm(pull.node, from.state);
  cache::SliceStamp& answered = pull.answers[id_.value];
  stamp(answered, pull.node, from.state);
  if (from.answer == Answer::kUnchanged) {
    if (training_ != nullptr) training_->confirm(id_, pull.node, answered);
    const Ticks sent = loop_.take(plan_.costs.message, now);
    network_.message({EventKind::kUnchanged, id_.value, place}, sent + plan_.costs.message);
    return true;
  }
  if (!in_replies_ || in_replies_->state.revision != from.state.revision) {
    in_replies_ = StateInReplies{from.state};
  } else {
    in_replies_->state.version = std::max(in_replies_->state.version, from.state.version);
  }
  ++in_replies_->replies;
  if (training_ != nullptr) training_->answer(place, id_, pull.fragment, pull.node, answered);
  const std::int64_t messages = plan_.answer_to(pull.node, id_, pull.fragment).messages;
  events_.at(loop_.take(messages * plan_.costs.message, now), {EventKind::kReplySent, id_.value, place});
  return true;
}

void Server::confirm(NodeId node, const State& state) {
  State& answered = answered_[node.value];
  if (state.revision < answered.revision || state.version < answered.version) return;
  answered = state;
}

void Server::stamp(cache::SliceStamp& stamp, NodeId node, const State& state) const {
  stamp.version = state.version;
  stamp.revision = state.revision;
  stamp.applied.resize(plan_.cluster.threads_per_node);
  for (std::uint32_t t = 0; t < plan_.cluster.threads_per_node; ++t) {
    stamp.applied[t] = applied_.at(plan_.cluster.rank_of(WorkerId(node, t)), state.version, state.revision);
  }
}

void Server::reply_sent(std::uint32_t place, Ticks now) {
  const std::int64_t bytes = plan_.answer_to(pulls_[place].node, id_, pulls_[place].fragment).bytes;
  bytes_pulled_ += bytes;
  network_.to_node(id_, pulls_[place].node, bytes, {EventKind::kAnswerArrives, id_.value, place},
                   now + plan_.costs.message);
}

void Server::reply_delivered(Ticks now) {
  if (--in_replies_->replies > 0) return;
  in_replies_.reset();
  if (training_ != nullptr) training_->nothing_in_flight(id_);
  answer_ready(now);
}

void Server::answer_ready(Ticks now) {
  if (waiting_.empty()) return;
  retried_.swap(waiting_);
  for (const std::uint32_t pull : retried_) {
    if (!answer(pull, now)) waiting_.push_back(pull);
  }
  retried_.clear();
}

void Server::lose(NodeId node) {
  std::erase_if(waiting_, [&](std::uint32_t pull) { return pulls_[pull].node == node; });
}

void Server::join(NodeId node) {
  lose(node);
  answered_[node.value] = State{kNoVersion, kNoRevision};
}

}  // namespace paceline::simulate
