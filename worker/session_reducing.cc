// A session's part in an all-reduce: the exchange it makes, what it tells the authority of it, and where those that are
// left go on when a node is lost (server/authority/reduced_steps.h).
#include <utility>

#include "worker/session.h"

namespace paceline {

void Session::make_reducing() {
  if (config_.exchange.kind != ExchangeKind::kAllreduce) return;
  AllReduceExchange::Parts exchange{config_,    parts_.node,
                                    layout_,    process_cache_,
                                    steady_now, [this](const Status& why) { reducing_failed(why); }};
  exchange.memory = parts_.tasks.parameter_memory();
  exchange.place = PlaceInRun{trained_.begin, parts_.tasks.layout().size()};
  if (config_.exchange.on_loss == OnLoss::kGoOn) {
    exchange.meet = [this](const AllReduceExchange::Parting& parting) { return meet_again(parting); };
    exchange.on_formation = [this](const AllReduceExchange::Meeting& meeting) { log_formation(meeting); };
  }
  if (parts_.trace != nullptr) {
    exchange.on_bucket = [trace = parts_.trace](const BucketSpan& bucket) { trace->add(bucket); };
  }
  reduces_ = std::make_unique<AllReduceExchange>(std::move(exchange));
}

// Then it has the parameters that node 0 has sent, or the state of a checkpoint.
Status Session::begin_reducing(const Status& connected) {
  PACELINE_RETURN_IF_ERROR(connected);
  const KeptChoices& choices = reduces_->choices();
  for (const std::string& choice : words_of(choices, config_.exchange.algorithm)) {
    parts_.log.info("buckets " + choice);
  }
  if (!choices.written.is_ok()) {
    parts_.log.warn("what was measured is not kept: " + choices.written.message());
  }
  PACELINE_ASSIGN_OR_RETURN(const RunState from, client_.fetch_state(config_.cluster.start_timeout));
  return reduces_->begin(from);
}

// What is no loss is so for all: without one of them the others would make another step of it. With on_nan: skip such a
// report would say that the step is left out. Of what is lost for all nobody makes a step.
void Session::reducing_failed(const Status& why) {
  if (why.code() == StatusCode::kDataLoss) client_.fail_run(why);
  if (why.code() == StatusCode::kInvalidArgument && config_.train.on_nan == OnNan::kStop) {
    RoundReport report{WorkerId(parts_.node, 0), Clock(reduces_->version().value), {}};
    report.computed_version = reduces_->version();
    report.skipped = true;
    report.fault = why.message();
    client_.report(std::move(report));
  }
  client_.close(why);
}

// The authority has it from all that are left, or loses who does not say it; so it answers within some leases.
Result<AllReduceExchange::Meeting> Session::meet_again(const AllReduceExchange::Parting& parting) {
  parts_.log.warn(parting.why + ": node " + to_string(parts_.node) + " leaves formation " +
                  std::to_string(parting.formation) + " at version " + to_string(parting.version));
  PACELINE_ASSIGN_OR_RETURN(mesh::Listening listening, listen());
  wire::Peers own;
  own.endpoints = {listening.endpoint};
  own.formation = parting.formation;
  own.version = parting.version;
  own.lost = parting.lost;
  own.why = parting.why;
  PACELINE_ASSIGN_OR_RETURN(
      const wire::Peers peers,
      client_.exchange_endpoints(std::move(own), config_.cluster.start_timeout + 4 * config_.cluster.lease));
  AllReduceExchange::Meeting meeting{peers.formation, std::move(listening), {}, peers.version, {}};
  meeting.place.token = peers.token;
  meeting.place.key = peers.key;
  PACELINE_RETURN_IF_ERROR(check_key(meeting.place));
  for (std::uint32_t node = 0; node < peers.endpoints.size(); ++node) {
    if (peers.endpoints[node].empty()) continue;
    const auto rank = static_cast<std::uint32_t>(meeting.place.nodes.size());
    if (NodeId(node) == parts_.node) meeting.place.rank = rank;
    if (peers.holder == NodeId(node)) meeting.holder = rank;
    meeting.place.nodes.emplace_back(node);
    meeting.place.endpoints.push_back(peers.endpoints[node]);
  }
  return meeting;
}

void Session::log_formation(const AllReduceExchange::Meeting& meeting) {
  const std::vector<NodeId>& here = meeting.place.nodes;
  std::string without;
  for (std::uint32_t node = 0; node < config_.cluster.nodes; ++node) {
    if (std::find(here.begin(), here.end(), NodeId(node)) != here.end()) continue;
    without += (without.empty() ? "" : ", ") + std::to_string(node);
  }
  parts_.log.warn("formation " + std::to_string(meeting.formation) +
                  (without.empty() ? "" : ", without node(s) " + without) + ": " +
                  std::to_string(here.size()) + " nodes go on from version " + to_string(meeting.version));
}

// Where each node has a part, each sends its own; of stages those of the first group. After the last step the authority
// makes up no formation any more, which a node that has left one would wait for in vain.
void Session::send_last_state() {
  if (reduces_ == nullptr) return;
  reduces_->end_rounds();
  if (parts_.node.value < config_.pipeline.stages || config_.exchange.shard_optimizer) {
    client_.send_final_state(reduces_->last_state());
  }
}

// Ahead of the grant with which the node leaves it. Who evaluates has its own stage alone: the others of its group
// send it theirs, once: a node whose connection to the authority broke is asked again.
void Session::keep_version(Version version) {
  const std::uint32_t node = parts_.node.value;
  if (node == 0 || node >= config_.pipeline.stages) return reduces_->keep(version);
  if (channels_->has_sent_parameters(NodeId(0), version)) return;
  std::vector<float> floats(static_cast<std::size_t>(layout_.size()));
  const Status fetched = reduces_->fetch_exact(version, floats);
  if (!fetched.is_ok()) {  // nothing, rather, than that it waits
    parts_.log.warn("node 0 is not given version " + to_string(version) + ": " + fetched.message());
    floats.clear();
  }
  // Who cannot be reached is lost, which others see to.
  static_cast<void>(channels_->send_parameters(NodeId(0), version, std::move(floats)));
}

void Session::report_reducing(wire::NodeReport& report) const {
  if (reduces_ == nullptr) return;
  const Traffic sent = reduces_->traffic();
  report.bytes_reduced = sent.reduced;
  report.reducing = sent.reducing;
  report.algorithms = words_of(reduces_->choices(), config_.exchange.algorithm);
}

}  // namespace paceline
