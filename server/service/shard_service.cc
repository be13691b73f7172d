// A shard's messages, from who may say what (top) to what is answered. How a shard begins is in shard_service_open.cc.
#include "server/service/shard_service.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>

#include "common/config/reducing.h"
#include "common/ticks.h"
#include "common/trace/bound.h"
#include "server/peers/unread_messages_max.h"
#include "server/service/shard_waits.h"

namespace paceline::server {
namespace {

// A peer that sends nothing but nonsense must not fill the disk.
constexpr std::int64_t kRefusalsLogged = 100;
// So often a connection may break in the middle of an answer, without a whole gradient of the node in
// between.
constexpr int kCutAnswersMax = 16;

// How long a lost node may go on reading what was sent to it.
constexpr std::chrono::seconds kFarewellMax{2};

// Floats [begin, begin + floats) of a block that is not encoded.
wire::Payload in_part(wire::Payload block, std::int64_t begin, std::int64_t floats) {
  if (block.encoding != Encoding::kFp32) return block;  // which is asked for as a whole
  block.data += begin * static_cast<std::int64_t>(sizeof(float));
  block.size = static_cast<std::size_t>(floats) * sizeof(float);
  return block;
}

std::vector<Clock> applied_for(Peer to, const Snapshot& state, const Cluster& cluster) {
  return to.is_node() ? Shard::applied_of(state, cluster, to.node()) : std::vector<Clock>();
}

}  // namespace

ShardService::ShardService(ShardId id, const RunConfig& config, Outbox& outbox, const Log& log,
                           std::function<void()> replies_sent, ShardCheckpoints* checkpoints)
    : id_(id),
      config_(config),
      cluster_(config.cluster.cluster()),
      outbox_(outbox),
      log_(log),
      checkpoints_(checkpoints),
      node_states_(id, outbox, checkpoints, state_senders(config)),
      pending_(static_cast<std::size_t>(pulls_max(config))),
      nodes_(config.cluster.nodes),
      replies_(cluster_, shard_settings(config).missing_max, config.cluster.parameter_encoding,
               std::move(replies_sent)) {
  if (config.run.trace) {
    applied_.emplace(trace::shard_events(config.run.trace_events, config.cluster.shards));
  }
}

// What a node may say to a shard.
struct ShardService::OfNode {
  ShardService& shard;
  Peer from;
  wire::Message& message;

  Status operator()(const wire::Push& push) const { return shard.on(from, push, std::move(message.payload)); }
  Status operator()(const wire::Withdraw& withdraw) const { return shard.on(from, withdraw); }
  Status operator()(const wire::Pull& pull) const { return shard.on(from, pull); }
  Status operator()(const wire::InitialParameters& piece) const {
    return shard.on(from, piece, message.payload);
  }
  Status operator()(const wire::NodeState& piece) const {
    return shard.node_states_.on(from, piece, message.payload, shard.shard_, shard.layout_hash_);
  }
  Status operator()(const wire::StateWanted&) const {
    shard.node_states_.wanted(from);
    if (shard.shard_) shard.answer_ready();
    return Status::ok();
  }
  template <typename Other>
  Status operator()(const Other&) const {
    return invalid_argument(std::string(wire::name_of(message.body)) + " from " + to_string(from) +
                            " to shard " + to_string(shard.id_) + ": not for a shard");
  }
};

// What the authority may. Errors: of what a shard that agrees with it would have done.
struct ShardService::OfAuthority {
  ShardService& shard;
  Peer from;
  const wire::Body& body;

  Status operator()(const wire::ApplyDecision& decision) const { return shard.on_decision(decision); }
  Status operator()(const wire::DiscardGradient& discard) const {
    if (!shard.shard_) return Status::ok();
    shard.shard_->discard(discard.worker, discard.clock);
    shard.announce_withheld();
    return Status::ok();
  }
  Status operator()(const wire::NodeLost& lost) const {
    shard.on_lost(lost.node);
    return Status::ok();
  }
  Status operator()(const wire::Release& release) const {
    if (!shard.shard_) return Status::ok();
    shard.shard_->release(release.version);
    shard.released_in_replies_ = shard.replies_.exact() > 0;
    return Status::ok();
  }
  Status operator()(const wire::ForgetSaved& forget) const {
    if (shard.checkpoints_ != nullptr) shard.checkpoints_->forget(forget.oldest_kept, forget.spared);
    return Status::ok();
  }
  Status operator()(const wire::Pull& pull) const {
    if (const Status status = shard.on(from, pull); !status.is_ok()) shard.refuse(from, status);
    return Status::ok();
  }
  template <typename Other>
  Status operator()(const Other&) const {
    return failed_precondition(std::string(wire::name_of(body)) + " from the authority to shard " +
                               to_string(shard.id_) + ": not for a shard");
  }
};

Status ShardService::handle(Peer from, wire::Message message) {
  if (!from.is_node()) {
    if (!must_wait(message.body)) return std::visit(OfAuthority{*this, from, message.body}, message.body);
    postponed_.push_back(std::move(message));
    return Status::ok();
  }
  const Status status = nodes_[from.number].lost ? failed_precondition(to_string(from) + " was declared lost")
                                                 : std::visit(OfNode{*this, from, message}, message.body);
  if (!status.is_ok()) refuse(from, status);
  return Status::ok();
}

// A loss never waits: it may be what the others wait for.
bool ShardService::must_wait(const wire::Body& body) {
  if (std::holds_alternative<wire::NodeLost>(body)) return false;
  if (!postponed_.empty()) return true;
  const auto* decision = std::get_if<wire::ApplyDecision>(&body);
  if (replies_.exact() == 0) released_in_replies_ = false;
  return decision != nullptr && decision->retain && released_in_replies_;
}

Status ShardService::on_replies_sent() {
  for (std::deque<wire::Message> waiting = std::exchange(postponed_, {}); !waiting.empty();) {
    wire::Message message = std::move(waiting.front());
    waiting.pop_front();
    PACELINE_RETURN_IF_ERROR(handle(Peer::of(kAuthority), std::move(message)));
  }
  if (shard_) answer_ready();
  return Status::ok();
}

void ShardService::tick(Ticks now) {
  if (shard_) durations_.observe(*shard_, replies_, now);
  for (const ReplyWindow::Stuck& stuck : replies_.stuck(now, config_.cluster.lease)) {
    Node& node = nodes_[stuck.node.value];
    node.stuck = true;
    if (node.lost) continue;
    const char* const what =
        stuck.why == ReplyWindow::Stuck::Why::kTakesNothing ? "none of" : "only a part of";
    char why[128];
    std::snprintf(why, sizeof why, "it has taken %s the parameters it asked shard %s for in %.3g s", what,
                  to_string(id_).c_str(), std::chrono::duration<double>(stuck.after).count());
    outbox_.send(Peer::of(kAuthority), {wire::NodeLost{stuck.node, why}, {}});
  }
  part_with_lost(now);
}

// What a lost node has not taken would keep states alive for as long as it pleases. But after it lies the
// Error that says why, so a node that reads has a while for that. Breaking may fail: it is tried until
// nothing is left.
void ShardService::part_with_lost(Ticks now) {
  const auto farewell = std::min<std::chrono::nanoseconds>(kFarewellMax, config_.cluster.lease);
  for (std::uint32_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    if (!node.lost || replies_.to(NodeId(n)) == 0) continue;
    if (!node.unread_since) node.unread_since = now;
    if (node.stuck || now - *node.unread_since > farewell) outbox_.disconnect(NodeId(n));
  }
}

void ShardService::discount_pause(const Pause& pause) {
  replies_.discount_pause(pause);
  for (Node& node : nodes_) {
    if (node.unread_since) node.unread_since = pause.discounted(*node.unread_since);
  }
}

Status ShardService::on(Peer from, const wire::InitialParameters& piece, const wire::Payload& payload) {
  if (from.node() != NodeId(0)) {
    return invalid_argument("initial parameters from " + to_string(from) + ", expected them from node 0");
  }
  if (!shard_) return failed_precondition("initial parameters before a join");
  PACELINE_RETURN_IF_ERROR(shard_->initialize(piece, payload.floats()));
  if (!piece.last) return Status::ok();
  outbox_.send(Peer::of(kAuthority), {wire::ShardReady{id_, layout_hash_, Version(0)}, {}});
  answer_ready();
  return Status::ok();
}

Status ShardService::on(Peer from, const wire::Push& push, wire::Payload payload) {
  if (push.worker.node != from.node()) {
    return invalid_argument("push from " + to_string(from) + " in the name of worker " +
                            to_string(push.worker));
  }
  if (!shard_) return failed_precondition("push from worker " + to_string(push.worker) + " before a join");
  const bool ahead = push.last && may_hold_next();
  const auto prepare = ahead ? Shard::Prepare::kWhole : Shard::Prepare::kNothing;
  PACELINE_ASSIGN_OR_RETURN(auto arrived, shard_->push(push, std::move(payload), prepare));
  if (push.last) nodes_[from.number].cut_answers = 0;
  if (!arrived) return Status::ok();
  withheld_.push_back(*std::move(arrived));
  announce_withheld();
  return Status::ok();
}

Status ShardService::on(Peer from, const wire::Withdraw& withdraw) {
  const std::string who = to_string(withdraw.worker);
  if (withdraw.worker.node != from.node()) {
    return invalid_argument("withdrawal from " + to_string(from) + " in the name of worker " + who);
  }
  if (!shard_) return failed_precondition("withdrawal by worker " + who + " before a join");
  return shard_->withdraw(withdraw);
}

// Only a third state of the parameters is too many: the next one is the second while no older one leaves.
bool ShardService::may_hold_next() { return !replies_.keeps_older(shard_->now()); }

bool ShardService::work_ahead() {
  if (!shard_) return false;
  const bool prepared = shard_->next().may_prepare() && may_hold_next() && shard_->prepare_next();
  return prepared || shard_->check_next_finite();
}

void ShardService::announce_withheld() {
  std::erase_if(withheld_, [this](wire::GradientArrived& arrived) {
    if (shard_->is_full(arrived.worker, arrived.clock)) return false;
    outbox_.send(Peer::of(kAuthority), {std::move(arrived), {}});
    return true;
  });
}

Status ShardService::on(Peer from, const wire::Pull& pull) {
  if (!shard_) return failed_precondition("pull from " + to_string(from) + " before a join");
  // A node that asks without reading its answers would keep ever older blocks alive in the send queue.
  if (from.is_node()) {
    const auto pieces = static_cast<std::int64_t>(replies_.to(from.node()));
    const auto per_reply =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(shard_->now().blocks.block_count()));
    if (pieces > pulls_max(config_) * per_reply) {
      return resource_exhausted("pull from " + to_string(from) + ": " + std::to_string(pieces) +
                                " pieces are still on their way to it");
    }
  }
  const bool encoded = config_.cluster.parameter_encoding != Encoding::kFp32;
  if (pull.part && (pull.part->end > shard_->range().size() || pull.exact || encoded)) {
    return invalid_argument("pull from " + to_string(from) + ": floats [" + std::to_string(pull.part->begin) +
                            ", " + std::to_string(pull.part->end) + ")" + (pull.exact ? ", exactly" : "") +
                            (encoded ? ", encoded" : "") + ", expected some of [0, " +
                            std::to_string(shard_->range().size()) + ") as they are");
  }
  const Answer answer = answer_to(from, pull);
  switch (answer.when) {
    case Answer::When::kNow:
      send_answer(from, pull, answer);
      break;
    case Answer::When::kLater:
      PACELINE_RETURN_IF_ERROR(pending_.hold({from, pull}));
      break;
    case Answer::When::kNever:
      return not_found("pull from " + to_string(from) + ": version " + to_string(pull.min_version) +
                       " is not retained by shard " + to_string(id_) + ", which is at version " +
                       to_string(shard_->now().version));
  }
  ++pulls_;
  return Status::ok();
}

// An exact version may be asked for before the decision that retains it has come here from the authority.
ShardService::Answer ShardService::answer_to(Peer from, const wire::Pull& pull) {
  const Snapshot& now = shard_->now();
  Answer answer;
  if (!pull.exact) {
    if (shard_->ready()) answer.source = replies_.source(now, from, pull);
    if (answer.source) answer.when = Answer::When::kNow;
    return answer;
  }
  answer.retained = shard_->retained(pull.min_version);
  if (answer.retained != nullptr) {
    answer.when = Answer::When::kNow;
  } else if (now.version > pull.min_version) {
    answer.when = Answer::When::kNever;
  }
  return answer;
}

void ShardService::send_answer(Peer to, const wire::Pull& pull, const Answer& answer) {
  if (answer.retained != nullptr) {
    return send_parameters(to, pull, *answer.retained, replies_.begin_exact(to, *answer.retained));
  }
  const ReplyWindow::Source& source = answer.source;
  if (source.held != nullptr) {
    const ReplyWindow::NodeSnapshot& held = *source.held;
    return outbox_.send(to,
                        {wire::Unchanged{pull.request, id_, held.version, held.revision, held.applied}, {}});
  }
  const Snapshot& state = *source.state;
  if (pull.have != state.revision) {
    if (to.is_node()) shard_->sent(to.node(), state);
    return send_parameters(to, pull, state, replies_.begin(to, state));
  }
  replies_.confirm(to, state);
  outbox_.send(to, {wire::Unchanged{pull.request, id_, state.version, state.revision,
                                    applied_for(to, state, cluster_)},
                    {}});
}

void ShardService::send_parameters(Peer to, const wire::Pull& pull, const Snapshot& state,
                                   const ReplyWindow::Reply& reply) {
  const BlockRange& cut = shard_->now().blocks;  // as every state of this shard is
  Range wanted = pull.part.value_or(Range{0, cut.size()});
  if (wanted.size() == 0) wanted = {};
  const std::int64_t first = wanted.begin / std::max<std::int64_t>(1, cut.block_floats());
  for (std::int64_t i = first, at = wanted.begin; at < wanted.end || i == first; ++i) {
    wire::Parameters piece{pull.request, id_, state.version, state.revision, at - wanted.begin, false, {}};
    wire::Payload payload;
    if (wanted.size() > 0) {  // a range may be empty: more shards than parameters, or no part of it is wanted
      const Range block = cut.elements(i);
      payload = in_part(reply.piece(i), at - block.begin, std::min(block.end, wanted.end) - at);
      at = std::min(block.end, wanted.end);
    }
    piece.last = at == wanted.end;
    if (i == first) piece.applied = applied_for(to, state, cluster_);
    outbox_.send(to, {std::move(piece), std::move(payload)});
  }
}

// One after another: an answer to the first pull of a node may make its second wait.
void ShardService::answer_ready() {
  if (shard_->ready()) node_states_.send_wanted(*shard_);
  ready_.clear();
  pending_.take_ready(
      [this](const PendingPull& p) { return answer_to(p.from, p.pull).when != Answer::When::kLater; },
      ready_);
  for (PendingPull& p : ready_) {
    const Answer answer = answer_to(p.from, p.pull);
    switch (answer.when) {
      case Answer::When::kNow:
        send_answer(p.from, p.pull, answer);
        break;
      case Answer::When::kLater: {
        const Status held = pending_.hold(std::move(p));
        PACELINE_ASSERT(held.is_ok(), held.message());  // it has only just made room
        break;
      }
      case Answer::When::kNever:
        refuse(p.from, not_found("version " + to_string(p.pull.min_version) + " was not retained by shard " +
                                 to_string(id_)));
    }
  }
}

Status ShardService::on_decision(const wire::ApplyDecision& decision) {
  if (!shard_) {
    return failed_precondition("decision " + std::to_string(decision.sequence) + " at shard " +
                               to_string(id_) + ": no node has joined here");
  }
  replies_.reap();
  const Ticks began = applied_ ? steady_now() : Ticks();
  PACELINE_RETURN_IF_ERROR(shard_->apply(decision));
  if (applied_) {
    applied_->add({began, steady_now() - began, decision.version_after, decision.revision_after,
                   static_cast<std::int64_t>(decision.contributions.size())});
  }
  if (decision.save && config_.exchange.kind == ExchangeKind::kAllreduce) {
    node_states_.save(decision, *shard_, layout_hash_);
  } else if (decision.save && checkpoints_ != nullptr) {
    checkpoints_->save(shard_->image(), shard_->range(), layout_hash_);
  }
  announce_withheld();
  answer_ready();
  return Status::ok();
}

void ShardService::on_lost(NodeId node) {
  if (node.value >= cluster_.nodes) return;
  nodes_[node.value].lost = true;
  pending_.drop(Peer::of(node));
  node_states_.lost(node);
  std::erase_if(withheld_,
                [node](const wire::GradientArrived& arrived) { return arrived.worker.node == node; });
  if (shard_) shard_->drop_partial(node);
  if (nodes_[node.value].stuck && replies_.to(node) > 0) outbox_.disconnect(node);
}

void ShardService::on_welcome(NodeId node) {
  if (!nodes_[node.value].lost) return;
  nodes_[node.value] = {};
  replies_.forget(node);
}

Status ShardService::may_reconnect(NodeId node, Ticks now) {
  Node& member = nodes_[node.value];
  if (replies_.to(node) == 0) return Status::ok();
  if (member.cut_answers++ == 0) member.cut_since = now;
  if (member.cut_answers <= kCutAnswersMax || now - member.cut_since <= config_.cluster.lease)
    return Status::ok();
  return resource_exhausted(
      "node " + to_string(node) + ": its connection broke " + std::to_string(member.cut_answers) +
      " times before it had what it was answered with, and it has pushed nothing since");
}

// What it had asked for and not got it asks for again.
void ShardService::on_reconnect(NodeId node) {
  nodes_[node.value].repeats = true;
  pending_.drop(Peer::of(node));
  replies_.reconnected(node);
  if (shard_) shard_->reconnected(node);
  node_states_.reconnected(node);
}

void ShardService::refuse(Peer from, const Status& why) {
  if (from.is_node() && nodes_[from.number].repeats && why.code() == StatusCode::kOutOfOrder) {
    ++repeated_;
    return;
  }
  ++refused_;
  if (refused_ <= kRefusalsLogged) log_.warn("refused: " + why.message());
  if (refused_ == kRefusalsLogged) log_.warn("further refusals are counted, not logged");
  // What was given twice is ignored; who asks for a version that has been released (kNotFound) has been too
  // slow with an evaluation, and goes on; after anything else, a gap say, the sender would wait for ever.
  const bool fatal = why.code() != StatusCode::kOutOfOrder && why.code() != StatusCode::kNotFound;
  outbox_.send(from, {wire::Error{why.code(), why.message(), fatal}, {}});
}

std::vector<Wait> ShardService::waits(const LastSeen& last_seen, Ticks now) const {
  return waits_of({id_, shard(), pending_, replies_, postponed_.size(), withheld_, durations_}, last_seen,
                  now);
}

}  // namespace paceline::server
