// A message to its header: from a plain struct to its protobuf, field by field, in the order of common/wire/messages.h,
// and that to bytes (bottom). What servers say to each other is in codec_encode_servers.cc.
#include <google/protobuf/io/coded_stream.h>

#include "common/wire/codec.h"
#include "common/wire/codec_encode_servers.h"
#include "common/wire/codec_proto.h"
#include "common/wire/codec_put.h"
#include "common/wire/message_table.h"

namespace paceline::wire {
namespace {

using wire::put;  // which those here would hide

void put(const Join& m, proto::Join& out) {
  out.set_protocol_version(m.protocol_version);
  out.set_node(m.node.value);
  out.set_incarnation(m.incarnation);
  out.set_threads(m.threads);
  out.set_config_fingerprint(m.config_fingerprint);
  out.set_layout_hash(m.layout_hash);
  out.set_data_fingerprint(m.data_fingerprint);
  out.set_last_generation(m.last_generation);
  out.set_goes_on(m.goes_on);
  out.set_gradients_again(m.gradients_again);
  out.set_connection(m.connection);
  put(m.settings, *out.mutable_settings());
  for (const Tensor& tensor : m.tensors) {
    proto::Tensor& t = *out.add_tensors();
    t.set_name(tensor.name);
    t.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
    if (tensor.traits == usual_traits(tensor.name)) continue;
    t.mutable_traits()->set_role(static_cast<proto::TensorRole>(tensor.traits.role));
    t.mutable_traits()->set_lr_factor(tensor.traits.lr_factor);
    t.mutable_traits()->set_decay_factor(tensor.traits.decay_factor);
    t.mutable_traits()->set_may_be_unused(tensor.traits.may_be_unused);
  }
}

void put(const Welcome& m, proto::Welcome& out) {
  out.set_shard(m.shard.value);
  out.set_begin(m.range.begin);
  out.set_end(m.range.end);
  out.set_generation(m.generation);
  out.set_initialized(m.initialized);
  out.set_under_way(m.under_way);
}

void put(const InitialParameters& m, proto::InitialParameters& out) {
  out.set_offset(m.offset);
  out.set_last(m.last);
}

void put(const Push& m, proto::Push& out) {
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
  out.set_offset(m.offset);
  out.set_last(m.last);
  out.set_samples(m.samples);
  out.set_computed_version(m.computed_version.value);
  out.set_computed_revision(m.computed_revision.value);
  out.set_own_updates(m.own_updates);
}

template <typename Out>
void put_form(const Payload& payload, Out& out) {
  out.set_encoding(static_cast<proto::Encoding>(payload.encoding));
  out.set_floats(payload.encoded_floats);
}

void put(const Withdraw& m, proto::Withdraw& out) {
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
}

// Into a StepReport or a Grant; most have none.
template <typename Message>
void put(const LossScale& scale, Message& out) {
  if (scale.scale == 0.0) return;
  out.mutable_loss_scale()->set_scale(scale.scale);
  out.mutable_loss_scale()->set_good_steps(scale.good_steps);
}

void put(const StepReport& m, proto::StepReport& out) {
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
  put(m.metric, *out.mutable_metric());
  out.set_computed_version(m.computed_version.value);
  out.set_computed_revision(m.computed_revision.value);
  out.set_skipped(m.skipped);
  out.set_fault(text(m.fault));
  out.set_own_updates(m.own_updates);
  out.set_compute_ns(m.compute.count());
  put(m.loss_scale, out);
}

void put(const Pull& m, proto::Pull& out) {
  out.set_request(m.request);
  out.set_min_version(m.min_version.value);
  out.set_exact(m.exact);
  out.set_have(m.have.value);
  if (!m.part) return;
  out.set_in_part(true);
  out.set_part_begin(m.part->begin);
  out.set_part_end(m.part->end);
}

void put(const Parameters& m, proto::Parameters& out) {
  out.set_request(m.request);
  out.set_shard(m.shard.value);
  out.set_version(m.version.value);
  out.set_revision(m.revision.value);
  out.set_offset(m.offset);
  out.set_last(m.last);
  for (Clock clock : m.applied) out.add_applied(clock.value);
}

void put(const Unchanged& m, proto::Unchanged& out) {
  out.set_request(m.request);
  out.set_shard(m.shard.value);
  out.set_version(m.version.value);
  out.set_revision(m.revision.value);
  for (Clock clock : m.applied) out.add_applied(clock.value);
}

void put(const Grant& m, proto::Grant& out) {
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
  out.set_iteration(m.iteration);
  put(m.threshold, *out.mutable_threshold());
  out.set_min_clock(m.min_clock.value);
  out.set_min_version(m.min_version.value);
  out.set_version(m.version.value);
  out.set_revision(m.revision.value);
  out.set_learning_rate(m.learning_rate);
  out.set_local_scale(m.local_scale);
  out.set_held_ns(m.held.count());
  out.set_position(m.position);
  out.set_samples(m.samples);
  out.set_eager(m.apply == ApplyMode::kEager);
  out.set_starts_over(m.starts_over);
  put(m.loss_scale, out);
}

void put(const HeldNotice& m, proto::HeldNotice& out) {
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
  out.set_lead(m.lead.value);
  put(m.threshold, *out.mutable_threshold());
  put(m.waits_for, *out.mutable_waits_for());
  out.set_held_ns(m.held.count());
}

void put(const FinishWorker& m, proto::FinishWorker& out) {
  put(m.worker, *out.mutable_worker());
  out.set_reason(text(m.reason));
  out.set_held_ns(m.held.count());
}

void put(const Evaluate& m, proto::Evaluate& out) {
  out.set_version(m.version.value);
  out.set_final_model(m.final_model);
  out.set_later(m.later);
}

void put(const EvaluationReport& m, proto::EvaluationReport& out) {
  out.set_version(m.version.value);
  put(m.metric, *out.mutable_metric());
  out.set_fault(text(m.fault));
}

void put(const PhaseStat& stat, proto::PhaseStat& out) {
  out.set_count(stat.count);
  out.set_total_ns(stat.total_ns);
  out.set_hidden_ns(stat.hidden_ns);
  for (const auto& [bucket, count] : stat.histogram) {
    out.add_bucket(bucket);
    out.add_bucket_count(count);
  }
}

void put(const NodeReport& m, proto::NodeReport& out) {
  out.set_node(m.node.value);
  for (const WorkerReport& report : m.workers) {
    proto::WorkerReport& w = *out.add_workers();
    put(report.worker, *w.mutable_worker());
    for (const PhaseStat& stat : report.phases.phases) put(stat, *w.add_phases());
    w.set_wall_ns(report.phases.wall_ns);
    w.set_iterations(report.iterations);
    w.set_skipped(report.skipped);
    w.set_overruns(report.overruns);
    w.set_bytes_early(report.bytes_early);
  }
  out.set_parameter_reads(m.parameter_reads);
  out.set_server_reads(m.server_reads);
  out.set_samples_left_out(m.samples_left_out);
  out.set_stage_busy_ns(m.stage.busy.count());
  out.set_stage_idle_ns(m.stage.idle.count());
  out.set_stage_activation_bytes(m.stage.activation_bytes);
  out.set_stage_idle_for_previous_ns(m.stage.idle_for_previous.count());
  out.set_bytes_reduced(m.bytes_reduced);
  out.set_reducing_ns(m.reducing.count());
  put(m.algorithms, *out.mutable_algorithms());
}

void put(const Leave& m, proto::Leave& out) {
  out.set_fault(text(m.fault));
  if (m.lost) out.set_lost(m.lost->value);
  out.set_finished(m.finished);
}

void put(const RunOver& m, proto::RunOver& out) {
  out.set_code(static_cast<proto::Code>(m.code));
  out.set_message(text(m.message));
  out.set_resumable(m.resumable);
  out.set_reconfigures(m.reconfigures);
}

void put(const Heartbeat& m, proto::Heartbeat& out) {
  for (const PhaseTimes& times : m.workers) {
    proto::WorkerTimes& w = *out.add_workers();
    w.mutable_phase_ns()->Assign(times.phases.begin(), times.phases.end());
    w.set_wall_ns(times.wall);
  }
  out.set_bytes_pushed(m.traffic.pushed);
  out.set_bytes_pulled(m.traffic.pulled);
  out.set_bytes_shared(m.traffic.shared);
  out.set_bytes_reduced(m.traffic.reduced);
  out.set_reducing_ns(m.traffic.reducing.count());
  out.set_acked(m.acked);
  out.set_answer(m.answer);
}

void put(const Error& m, proto::Error& out) {
  out.set_code(static_cast<proto::Code>(m.code));
  out.set_message(text(m.message));
  out.set_fatal(m.fatal);
}

void put(const NodeReady&, proto::NodeReady&) {}

void put(const Peers& m, proto::Peers& out) {
  out.set_token(m.token);
  for (const std::string& endpoint : m.endpoints) out.add_endpoints(text(endpoint));
  out.set_formation(m.formation);
  out.set_version(m.version.value);
  if (m.holder) out.set_holder(m.holder->value);
  if (m.lost) out.set_lost(m.lost->value);
  out.set_why(text(m.why));
  if (m.key) out.set_key(m.key->data(), m.key->size());
}

void put(const StateWanted& m, proto::StateWanted& out) { out.set_version(m.version.value); }

void put(const NodeState& m, proto::NodeState& out) {
  out.set_version(m.version.value);
  out.set_offset(m.offset);
  out.set_last(m.last);
}

void put(const LogEntry& m, proto::LogEntry& out) {
  out.set_as(static_cast<std::uint32_t>(m.as));
  out.set_number(m.number);
  out.set_ends_turn(m.ends_turn);
  out.set_at(m.at);
  if (m.node) out.set_node(m.node->value + 1);
  if (m.shard) out.set_shard(m.shard->value + 1);
}

#define PACELINE_PUT(Struct, field, kCase) \
  void put_into(const Struct& body, proto::Header& header) { put(body, *header.mutable_##field()); }
PACELINE_MESSAGES(PACELINE_PUT)
#undef PACELINE_PUT

// The codes travel as their position; a change of either list must show here.
static_assert(static_cast<int>(StatusCode::kInvalidArgument) == proto::INVALID_ARGUMENT);
static_assert(static_cast<int>(StatusCode::kUnavailable) == proto::UNAVAILABLE);
static_assert(static_cast<int>(StatusCode::kResourceExhausted) == proto::RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(StatusCode::kInternal) == proto::INTERNAL);

void put_beside(const Beside& beside, proto::Header& header) {
  if (beside.segment) {
    proto::Segment& out = *header.mutable_segment();
    out.set_process(beside.segment->process);
    out.set_descriptor(beside.segment->descriptor);
    out.set_bytes(beside.segment->bytes);
    out.set_token_high(beside.segment->token_high);
    out.set_token_low(beside.segment->token_low);
  }
  header.set_reads_segment(beside.reads_segment);
  if (beside.region) {
    header.mutable_region()->set_number(beside.region->number);
    header.mutable_region()->set_offset(beside.region->offset);
    header.mutable_region()->set_bytes(beside.region->bytes);
  }
  header.mutable_let_go()->Assign(beside.let_go.begin(), beside.let_go.end());
}

void put_message(const Message& message, proto::Header& header) {
  std::visit([&](const auto& body) { put_into(body, header); }, message.body);
  if (header.has_push()) put_form(message.payload, *header.mutable_push());
  if (header.has_parameters()) put_form(message.payload, *header.mutable_parameters());
  if (message.logged) put(*message.logged, *header.mutable_logged());
}

// `bytes`: what its ByteSizeLong() has just said.
std::string serialized(const proto::Header& header, std::size_t bytes) {
  std::string out(bytes, '\0');
  header.SerializeWithCachedSizesToArray(reinterpret_cast<std::uint8_t*>(out.data()));
  return out;
}

// A field of bytes as Protocol Buffers writes it.
void append(int field, const std::string& bytes, std::string& out) {
  using google::protobuf::io::CodedOutputStream;
  constexpr std::uint32_t kLengthDelimited = 2;
  std::uint8_t begin[10];
  std::uint8_t* end = CodedOutputStream::WriteVarint32ToArray(
      static_cast<std::uint32_t>(field) << 3 | kLengthDelimited, begin);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<std::uint32_t>(bytes.size()), end);
  out.append(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)).append(bytes);
}

}  // namespace

bool travels_with_others(const Body& body) {
  return std::visit(
      []<typename M>(const M&) {
        return (std::is_same_v<M, Push> || std::is_same_v<M, Withdraw> || std::is_same_v<M, StepReport> ||
                std::is_same_v<M, Pull> || std::is_same_v<M, Parameters> || std::is_same_v<M, Unchanged> ||
                std::is_same_v<M, Grant> || std::is_same_v<M, HeldNotice> || std::is_same_v<M, FinishWorker>);
      },
      body);
}

Result<std::string> encode(const Message& message) {
  PACELINE_RETURN_IF_ERROR(check_payload(message.body, message.payload));
  Scratch scratch;
  proto::Header& header = scratch.header();
  put_message(message, header);
  const std::size_t bytes = header.ByteSizeLong();
  if (bytes > kHeaderBytesMax) return check_header_size(bytes).with_context(name_of(message.body));
  return serialized(header, bytes);
}

// To Protocol Buffers what is appended to a message is part of it.
std::string encode(const Beside& beside) {
  Scratch scratch;
  proto::Header& header = scratch.header();
  put_beside(beside, header);
  return serialized(header, header.ByteSizeLong());
}

std::string encode(const Others& others) {
  std::string out;
  for (const std::string& other : others.before) append(proto::Header::kBeforeFieldNumber, other, out);
  for (const std::string& other : others.after) append(proto::Header::kAfterFieldNumber, other, out);
  return out;
}

}  // namespace paceline::wire
