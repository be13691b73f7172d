// A header that came from the network to its messages: from protobuf to a plain struct, every field checked, what nodes
// and servers say to each other in the order of common/wire/messages.h, and the header around every message (bottom).
#include <cstring>
#include <limits>

#include "common/assert.h"
#include "common/wire/codec.h"
#include "common/wire/codec_decode_servers.h"
#include "common/wire/codec_parts.h"
#include "common/wire/codec_proto.h"
#include "common/wire/fields.h"
#include "common/wire/message_table.h"

namespace paceline::wire {
namespace {

// ---- start-up

TensorTraits traits_of(Fields& f, const proto::TensorTraits& in) {
  const auto role = f.number("tensors.traits.role", in.role(), proto::WEIGHT, proto::BUFFER);
  return {static_cast<TensorRole>(role), f.finite("tensors.traits.lr_factor", in.lr_factor()),
          f.finite("tensors.traits.decay_factor", in.decay_factor()), in.may_be_unused()};
}

Tensor tensor_of(Fields& f, const proto::Tensor& in, std::int64_t offset) {
  Tensor tensor{f.text("tensors.name", in.name(), 1, kTensorNameBytesMax), {}, offset};
  tensor.traits = in.has_traits() ? traits_of(f, in.traits()) : usual_traits(tensor.name);
  if (!f.length("tensors.shape", in.shape_size(), 0, kTensorRankMax)) return tensor;
  std::int64_t room = kFloatsMax - offset;  // dividing keeps the product from overflowing
  for (std::int64_t dimension : in.shape()) {
    tensor.shape.push_back(f.number("tensors.shape", dimension, 1, kFloatsMax));
    room /= tensor.shape.back();
  }
  if (room == 0) f.refuse("tensors", "more than 2^40 floats in all", "at most 2^40");
  return tensor;
}

Body read(Fields& f, const proto::Join& in) {
  Join m;
  m.protocol_version = in.protocol_version();
  m.node = node_of(f, in.node());
  if (m.protocol_version != kProtocolVersion) return m;  // the rest may mean something else there
  m.incarnation = in.incarnation();
  m.threads = static_cast<std::uint32_t>(f.number("threads", in.threads(), 1, kThreadsMax));
  m.config_fingerprint = in.config_fingerprint();
  m.layout_hash = in.layout_hash();
  m.data_fingerprint = in.data_fingerprint();
  m.last_generation = generation_of(f, in.last_generation(), "last_generation", 0);
  m.goes_on = generation_of(f, in.goes_on(), "goes_on", 0);
  m.gradients_again = f.number("gradients_again", in.gradients_again(), 0, kCountMax);
  m.connection = f.number("connection", in.connection(), 1, kCountMax);
  m.settings = settings_of(f, in.settings());
  if (!f.length("tensors", in.tensors_size(), 1, kTensorsMax)) return m;
  std::int64_t offset = 0;
  for (const proto::Tensor& tensor : in.tensors()) {
    m.tensors.push_back(tensor_of(f, tensor, offset));
    if (!f.is_ok()) break;
    offset += m.tensors.back().size();
  }
  return m;
}

Body read(Fields& f, const proto::Welcome& in) {
  const std::int64_t end = f.number("end", in.end(), 0, kFloatsMax);
  return Welcome{shard_of(f, in.shard()),
                 {f.number("begin", in.begin(), 0, end), end},
                 generation_of(f, in.generation()),
                 in.initialized(),
                 in.under_way()};
}

Body read(Fields& f, const proto::InitialParameters& in) {
  return InitialParameters{f.number("offset", in.offset(), 0, kFloatsMax), in.last()};
}

Body read(Fields&, const proto::NodeReady&) { return NodeReady{}; }

Body read(Fields& f, const proto::Peers& in) {
  Peers m;
  m.token = in.token();
  m.formation = in.formation();
  m.version = version_of(f, in.version());
  if (in.has_holder()) m.holder = node_of(f, in.holder());
  if (in.has_lost()) m.lost = node_of(f, in.lost());
  m.why = text_of(f, in.why(), "why");
  if (in.has_key()) {
    FormationKey& key = m.key.emplace();
    const int bytes = static_cast<int>(in.key().size());
    if (!f.length("key", bytes, std::ssize(key), std::ssize(key))) return m;
    std::memcpy(key.data(), in.key().data(), key.size());
  }
  if (!f.length("endpoints", in.endpoints_size(), 0, kNodesMax)) return m;
  for (const std::string& endpoint : in.endpoints()) m.endpoints.push_back(text_of(f, endpoint, "endpoints"));
  return m;
}

Body read(Fields& f, const proto::StateWanted& in) { return StateWanted{version_of(f, in.version())}; }

Body read(Fields& f, const proto::NodeState& in) {
  return NodeState{version_of(f, in.version()), f.number("offset", in.offset(), 0, kFloatsMax), in.last()};
}

// ---- one iteration

Body read(Fields& f, const proto::Push& in) {
  return Push{worker_of(f, in),
              clock_of(f, in.clock()),
              f.number("offset", in.offset(), 0, kFloatsMax),
              in.last(),
              in.last() ? samples_of(f, in.samples(), 1) : f.number("samples", in.samples(), 0, 0),
              version_of(f, in.computed_version(), "computed_version"),
              revision_of(f, in.computed_revision(), "computed_revision"),
              f.number("own_updates", in.own_updates(), 0, kCountMax)};
}

Body read(Fields& f, const proto::Withdraw& in) {
  return Withdraw{worker_of(f, in), clock_of(f, in.clock())};
}

template <typename Message>
LossScale loss_scale_of(Fields& f, const Message& in) {
  const LossScale scale{in.loss_scale().scale(), in.loss_scale().good_steps()};
  if (scale.is_valid()) return scale;
  f.refuse("loss_scale", std::to_string(scale.scale) + " for " + std::to_string(scale.good_steps) + " steps",
           "a power of two up to " + std::to_string(static_cast<std::int64_t>(LossScale::kLargest)) +
               " for less than " + std::to_string(LossScale::kGrowthInterval));
  return {};
}

Body read(Fields& f, const proto::StepReport& in) {
  return StepReport{worker_of(f, in),
                    clock_of(f, in.clock()),
                    metric_of(f, in, in.skipped() || !in.fault().empty()),
                    version_of(f, in.computed_version(), "computed_version"),
                    revision_of(f, in.computed_revision(), "computed_revision"),
                    in.skipped(),
                    text_of(f, in.fault(), "fault"),
                    f.number("own_updates", in.own_updates(), 0, kCountMax),
                    std::chrono::nanoseconds(f.number("compute_ns", in.compute_ns(), 0, kCountMax)),
                    loss_scale_of(f, in)};
}

Body read(Fields& f, const proto::Pull& in) {
  Pull pull{in.request(), version_of(f, in.min_version(), "min_version"), in.exact(),
            Revision(f.number("have", in.have(), kNoRevision.value, kCountMax))};
  const std::int64_t end = f.number("part_end", in.part_end(), 0, in.in_part() ? kFloatsMax : 0);
  const std::int64_t begin = f.number("part_begin", in.part_begin(), 0, end);
  if (in.in_part()) pull.part = Range{begin, end};
  return pull;
}

Body read(Fields& f, const proto::Parameters& in) {
  if (in.offset() != 0 && in.applied_size() > 0) {
    f.refuse("applied", "clocks after the first piece", "none");
  }
  return Parameters{in.request(),
                    shard_of(f, in.shard()),
                    version_of(f, in.version()),
                    revision_of(f, in.revision()),
                    f.number("offset", in.offset(), 0, kFloatsMax),
                    in.last(),
                    applied_of(f, in)};
}

Body read(Fields& f, const proto::Unchanged& in) {
  return Unchanged{in.request(), shard_of(f, in.shard()), version_of(f, in.version()),
                   revision_of(f, in.revision()), applied_of(f, in)};
}

Body read(Fields& f, const proto::Grant& in) {
  return Grant{worker_of(f, in),
               clock_of(f, in.clock()),
               f.number("iteration", in.iteration(), 0, kCountMax),
               threshold_of(f, in),
               clock_of(f, in.min_clock(), "min_clock"),
               version_of(f, in.min_version(), "min_version"),
               version_of(f, in.version()),
               revision_of(f, in.revision()),
               f.finite("learning_rate", in.learning_rate()),
               f.finite("local_scale", in.local_scale()),
               held_of(f, in.held_ns()),
               f.number("position", in.position(), 0, kCountMax),
               samples_of(f, in.samples(), 1),
               apply_of(in.eager()),
               in.starts_over(),
               loss_scale_of(f, in)};
}

Body read(Fields& f, const proto::HeldNotice& in) {
  HeldNotice m{worker_of(f, in),
               clock_of(f, in.clock()),
               Staleness(f.number("lead", in.lead(), -kCountMax, kCountMax)),
               threshold_of(f, in),
               {},
               held_of(f, in.held_ns())};
  if (!f.present("waits_for", in.has_waits_for())) return m;
  m.waits_for = {
      static_cast<std::uint32_t>(f.number("waits_for.node", in.waits_for().node(), 0, kNodesMax - 1)),
      static_cast<std::uint32_t>(f.number("waits_for.thread", in.waits_for().thread(), 0, kThreadsMax - 1))};
  return m;
}

Body read(Fields& f, const proto::FinishWorker& in) {
  return FinishWorker{worker_of(f, in), text_of(f, in.reason(), "reason"), held_of(f, in.held_ns())};
}

// ---- evaluation

Body read(Fields& f, const proto::Evaluate& in) {
  return Evaluate{version_of(f, in.version()), in.final_model(), in.later()};
}

Body read(Fields& f, const proto::EvaluationReport& in) {
  return EvaluationReport{version_of(f, in.version()), metric_of(f, in, !in.fault().empty()),
                          text_of(f, in.fault(), "fault")};
}

// ---- the end

PhaseStat phase_of(Fields& f, const proto::PhaseStat& in) {
  PhaseStat stat;
  stat.count = f.number("workers.phases.count", in.count(), 0, kCountMax);
  stat.total_ns = f.number("workers.phases.total_ns", in.total_ns(), 0, kCountMax);
  stat.hidden_ns = f.number("workers.phases.hidden_ns", in.hidden_ns(), 0, kCountMax);
  if (!f.length("workers.phases.bucket", in.bucket_size(), 0, 1 << 16)) return stat;
  if (!f.length("workers.phases.bucket_count", in.bucket_count_size(), in.bucket_size(), in.bucket_size()))
    return stat;
  std::int64_t least = 0;
  for (int i = 0; i < in.bucket_size(); ++i) {
    const std::int64_t bucket = f.number("workers.phases.bucket", in.bucket(i), least, 0xFFFF);
    stat.histogram.emplace_back(static_cast<std::uint16_t>(bucket),
                                f.number("workers.phases.bucket_count", in.bucket_count(i), 1, kCountMax));
    least = bucket + 1;
  }
  return stat;
}

Body read(Fields& f, const proto::NodeReport& in) {
  NodeReport m;
  m.node = node_of(f, in.node());
  if (!f.length("workers", in.workers_size(), 0, kThreadsMax)) return m;
  for (const proto::WorkerReport& w : in.workers()) {
    WorkerReport& report = m.workers.emplace_back();
    report.worker = worker_of(f, w);
    if (!f.length("workers.phases", w.phases_size(), kPhaseCount, kPhaseCount)) return m;
    for (std::size_t i = 0; i < kPhaseCount; ++i)
      report.phases.phases[i] = phase_of(f, w.phases(static_cast<int>(i)));
    report.phases.wall_ns = f.number("workers.wall_ns", w.wall_ns(), 0, kCountMax);
    report.iterations = f.number("workers.iterations", w.iterations(), 0, kCountMax);
    report.skipped = f.number("workers.skipped", w.skipped(), 0, kCountMax);
    report.overruns = f.number("workers.overruns", w.overruns(), 0, kCountMax);
    report.bytes_early = f.number("workers.bytes_early", w.bytes_early(), 0, kCountMax);
  }
  m.parameter_reads = f.number("parameter_reads", in.parameter_reads(), 0, kCountMax);
  m.server_reads = f.number("server_reads", in.server_reads(), 0, kCountMax);
  m.samples_left_out = f.number("samples_left_out", in.samples_left_out(), 0, kCountMax);
  m.stage.busy = std::chrono::nanoseconds(f.number("stage_busy_ns", in.stage_busy_ns(), 0, kCountMax));
  m.stage.idle = std::chrono::nanoseconds(f.number("stage_idle_ns", in.stage_idle_ns(), 0, kCountMax));
  m.stage.activation_bytes = f.number("stage_activation_bytes", in.stage_activation_bytes(), 0, kCountMax);
  m.stage.idle_for_previous = std::chrono::nanoseconds(
      f.number("stage_idle_for_previous_ns", in.stage_idle_for_previous_ns(), 0, kCountMax));
  m.bytes_reduced = f.number("bytes_reduced", in.bytes_reduced(), 0, kCountMax);
  m.reducing = std::chrono::nanoseconds(f.number("reducing_ns", in.reducing_ns(), 0, kCountMax));
  if (!f.length("algorithms", in.algorithms_size(), 0, kAlgorithmsMax)) return m;
  for (const std::string& line : in.algorithms()) m.algorithms.push_back(text_of(f, line, "algorithms"));
  return m;
}

Body read(Fields& f, const proto::Leave& in) {
  Leave m{text_of(f, in.fault(), "fault"), std::nullopt, in.finished()};
  if (in.has_lost()) m.lost = node_of(f, in.lost());
  return m;
}

Body read(Fields& f, const proto::RunOver& in) {
  return RunOver{code_of(f, in.code(), StatusCode::kOk), text_of(f, in.message(), "message"), in.resumable(),
                 in.reconfigures()};
}

Body read(Fields& f, const proto::Heartbeat& in) {
  Heartbeat m;
  if (!f.length("workers", in.workers_size(), 0, kThreadsMax)) return m;
  for (const proto::WorkerTimes& w : in.workers()) {
    if (!f.length("workers.phase_ns", w.phase_ns_size(), kPhaseCount, kPhaseCount)) return m;
    PhaseTimes& times = m.workers.emplace_back();
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      times.phases[i] = f.number("workers.phase_ns", w.phase_ns(static_cast<int>(i)), 0, kCountMax);
    }
    times.wall = f.number("workers.wall_ns", w.wall_ns(), 0, kCountMax);
  }
  m.traffic = {f.number("bytes_pushed", in.bytes_pushed(), 0, kCountMax),
               f.number("bytes_pulled", in.bytes_pulled(), 0, kCountMax),
               f.number("bytes_shared", in.bytes_shared(), 0, kCountMax),
               f.number("bytes_reduced", in.bytes_reduced(), 0, kCountMax),
               std::chrono::nanoseconds(f.number("reducing_ns", in.reducing_ns(), 0, kCountMax))};
  m.acked = f.number("acked", in.acked(), 0, kCountMax);
  m.answer = in.answer();
  return m;
}

Body read(Fields& f, const proto::Error& in) {
  return Error{code_of(f, in.code(), StatusCode::kInvalidArgument), text_of(f, in.message(), "message"),
               in.fatal()};
}

// How the payload says its floats.
struct PayloadForm {
  Encoding encoding = Encoding::kFp32;
  std::int64_t floats = 0;  // 0 where float32
};

// `last`: the last of the encodings that this message may come in.
template <typename Proto>
Result<PayloadForm> form_of(const char* name, const Proto& in, Encoding last) {
  Fields f(name);
  PayloadForm form;
  form.encoding = static_cast<Encoding>(f.number("encoding", in.encoding(), 0, static_cast<int>(last)));
  form.floats = f.number("floats", in.floats(), 0, form.encoding == Encoding::kFp32 ? 0 : kPayloadFloatsMax);
  if (!f.is_ok()) return f.status();
  return form;
}

template <typename Proto>
Result<Body> checked(const char* name, const Proto& in) {
  Fields fields(name);
  Body body = read(fields, in);
  if (!fields.is_ok()) return fields.status();
  return body;
}

Result<Beside> beside_of(const proto::Header& header) {
  Fields f("header");
  Beside beside;
  if (header.has_segment()) {
    const proto::Segment& in = header.segment();
    constexpr std::int64_t kNumberMax = std::numeric_limits<std::int32_t>::max();
    beside.segment = {
        static_cast<std::uint32_t>(f.number("segment.process", in.process(), 1, kNumberMax)),
        static_cast<std::uint32_t>(f.number("segment.descriptor", in.descriptor(), 0, kNumberMax)),
        f.number("segment.bytes", in.bytes(), 1, kCountMax), in.token_high(), in.token_low()};
  }
  beside.reads_segment = header.reads_segment();
  if (header.has_region()) {
    const proto::Region& in = header.region();
    beside.region = {in.number(), f.number("region.offset", in.offset(), 0, kCountMax),
                     f.number("region.bytes", in.bytes(), 1, kPayloadBytesMax)};
    if (in.offset() % static_cast<std::int64_t>(sizeof(float)) != 0) {
      f.refuse("region.offset", std::to_string(in.offset()), "a multiple of 4");
    }
  }
  if (f.length("let_go", header.let_go_size(), 0, kLetGoMax)) {
    beside.let_go.assign(header.let_go().begin(), header.let_go().end());
  }
  if (!f.is_ok()) return f.status();
  return beside;
}

Result<Body> from_proto(const proto::Header& header) {
  switch (header.body_case()) {
#define PACELINE_CASE(Struct, field, kCase) \
  case proto::Header::kCase:                \
    return checked(#Struct, header.field());
    PACELINE_MESSAGES(PACELINE_CASE)
#undef PACELINE_CASE
    case proto::Header::BODY_NOT_SET:
      break;
  }
  return invalid_argument("header: got no body, or one this version does not know; expected field 1 to 44");
}

Result<PayloadForm> payload_form(const proto::Header& header) {
  if (header.has_push()) return form_of("Push", header.push(), Encoding::kZero);
  if (header.has_parameters()) return form_of("Parameters", header.parameters(), Encoding::kBf16);
  return PayloadForm{};
}

Result<const proto::Header*> parse(std::string_view bytes, Scratch& scratch) {
  proto::Header& header = scratch.header(bytes.size());
  if (header.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return &header;
  return invalid_argument("header: got " + std::to_string(bytes.size()) +
                          " bytes that are no header, expected proto/paceline.proto's Header");
}

// ZeroMQ may hand out small messages at any address inside its receive buffer.
Payload aligned_for_float(Payload payload) {
  if (reinterpret_cast<std::uintptr_t>(payload.data) % alignof(float) == 0) return payload;
  const std::shared_ptr<float[]> copy(new float[(payload.size + sizeof(float) - 1) / sizeof(float)]);
  std::memcpy(copy.get(), payload.data, payload.size);
  payload.data = reinterpret_cast<const std::byte*>(copy.get());
  payload.owner = copy;
  return payload;
}

Status check_travels(const Body& body) {
  if (travels_with_others(body)) return Status::ok();
  return invalid_argument("header: got a " + std::string(name_of(body)) +
                          " together with another message, expected it by itself");
}

// One of those that lie in another's header.
Result<Header::Other> other_of(const std::string& bytes, Scratch& scratch) {
  PACELINE_ASSIGN_OR_RETURN(const proto::Header* const parsed, parse(bytes, scratch));
  const proto::Header& in = *parsed;
  PACELINE_ASSIGN_OR_RETURN(const Beside beside, beside_of(in));
  if (beside != Beside{} || in.has_logged() || in.before_size() + in.after_size() > 0) {
    return invalid_argument("header: got more than a message in another's header, expected one");
  }
  PACELINE_ASSIGN_OR_RETURN(Body body, from_proto(in));
  PACELINE_RETURN_IF_ERROR(check_travels(body));
  PACELINE_ASSIGN_OR_RETURN(const PayloadForm form, payload_form(in));
  Payload none;
  none.encoding = form.encoding;
  none.encoded_floats = form.floats;
  PACELINE_RETURN_IF_ERROR(check_payload(body, none));
  return Header::Other{{std::move(body), std::move(none), {}}, bytes.size()};
}

Status add_others(const proto::Header& in, Header& header, Scratch& scratch) {
  const auto messages =
      1 + static_cast<std::size_t>(in.before_size()) + static_cast<std::size_t>(in.after_size());
  if (messages > kTogetherMax) {
    return invalid_argument("header: got " + std::to_string(messages) + " messages, expected at most " +
                            std::to_string(kTogetherMax));
  }
  PACELINE_RETURN_IF_ERROR(check_travels(*header.body));
  for (const std::string& bytes : in.before()) {
    PACELINE_ASSIGN_OR_RETURN(Header::Other other, other_of(bytes, scratch));
    header.before.push_back(std::move(other));
  }
  for (const std::string& bytes : in.after()) {
    PACELINE_ASSIGN_OR_RETURN(Header::Other other, other_of(bytes, scratch));
    header.after.push_back(std::move(other));
  }
  return Status::ok();
}

}  // namespace

Result<Header> decode_header(std::string_view bytes) {
  PACELINE_RETURN_IF_ERROR(check_header_size(bytes.size()));
  Scratch scratch;
  PACELINE_ASSIGN_OR_RETURN(const proto::Header* const parsed, parse(bytes, scratch));
  const proto::Header& in = *parsed;
  Header header;
  PACELINE_ASSIGN_OR_RETURN(header.beside, beside_of(in));
  const bool alone = in.before_size() + in.after_size() == 0;
  const bool for_the_transport_alone =
      in.body_case() == proto::Header::BODY_NOT_SET && alone && header.beside != Beside{};
  if (for_the_transport_alone) {
    // What protobuf keeps besides, of a body that this version does not know, say, is not for the transport.
    if (encode(header.beside).size() == in.ByteSizeLong()) return header;
    return invalid_argument("header: got no body but unknown fields, expected a body or neither");
  }
  PACELINE_ASSIGN_OR_RETURN(header.body, from_proto(in));
  PACELINE_ASSIGN_OR_RETURN(header.logged, logged_of(in));
  PACELINE_ASSIGN_OR_RETURN(const PayloadForm form, payload_form(in));
  header.encoding = form.encoding;
  header.encoded_floats = form.floats;
  if (!alone) PACELINE_RETURN_IF_ERROR(add_others(in, header, scratch));
  return header;
}

Result<Message> with_payload(Header header, Payload payload) {
  PACELINE_ASSERT(header.body.has_value(), "a payload for a header without a body");
  payload.encoding = header.encoding;
  payload.encoded_floats = header.encoded_floats;
  PACELINE_RETURN_IF_ERROR(check_payload(*header.body, payload));
  return Message{*std::move(header.body), aligned_for_float(std::move(payload)), header.logged};
}

Result<Message> decode(std::string_view bytes, Payload payload) {
  PACELINE_ASSIGN_OR_RETURN(Header header, decode_header(bytes));
  if (!header.body) return invalid_argument("header: got no body, expected one");
  if (!header.before.empty() || !header.after.empty()) {
    return invalid_argument("header: got several messages, expected one");
  }
  return with_payload(std::move(header), std::move(payload));
}

}  // namespace paceline::wire
