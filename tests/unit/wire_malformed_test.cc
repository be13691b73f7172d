// What a peer may not say: each field of the wrong form is refused with a line that names field, got and
// expected. The headers are made with protobuf directly, since the codec would not make them.
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "common/wire/codec.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {
namespace {

// A payload of `bytes` zeros.
Payload zeros(std::size_t bytes) {
  auto buffer = std::make_shared<std::vector<float>>(bytes / sizeof(float) + 1);
  const auto* data = reinterpret_cast<const std::byte*>(buffer->data());
  return {std::move(buffer), data, bytes};
}

std::string refusal(const std::string& header, const Payload& payload = {}) {
  const auto decoded = decode(header, payload);
  if (decoded.is_ok()) return "accepted";
  CHECK(decoded.status().code() == StatusCode::kInvalidArgument);
  return decoded.status().message();
}
std::string refusal(const proto::Header& header, const Payload& payload = {}) {
  return refusal(header.SerializeAsString(), payload);
}

// Well-formed headers to spoil.
proto::Header push() {
  proto::Header h;
  h.mutable_push()->mutable_worker();
  h.mutable_push()->set_samples(1);
  h.mutable_push()->set_last(true);
  return h;
}
proto::Header grant() {
  proto::Header h;
  h.mutable_grant()->mutable_worker();
  h.mutable_grant()->mutable_threshold()->set_clocks(3);
  h.mutable_grant()->set_samples(1);
  return h;
}
proto::Header report() {
  proto::Header h;
  h.mutable_step_report()->mutable_worker();
  h.mutable_step_report()->mutable_metric();
  return h;
}
proto::Header join() {
  proto::Header h;
  h.mutable_join()->set_protocol_version(kProtocolVersion);
  h.mutable_join()->set_threads(4);
  h.mutable_join()->set_connection(1);
  proto::Tensor& tensor = *h.mutable_join()->add_tensors();
  tensor.set_name("w");
  tensor.add_shape(8);
  return h;
}
proto::Header node_report() {
  proto::Header h;
  proto::WorkerReport& worker = *h.mutable_node_report()->add_workers();
  worker.mutable_worker();
  for (std::size_t i = 0; i < kPhaseCount; ++i) worker.add_phases();
  return h;
}

TEST_CASE("the headers that the cases below spoil are accepted unspoilt") {
  CHECK(refusal(push(), zeros(4)) == "accepted");
  CHECK(refusal(grant()) == "accepted");
  CHECK(refusal(report()) == "accepted");
  CHECK(refusal(join()) == "accepted");
  CHECK(refusal(node_report()) == "accepted");
}

TEST_CASE("a header that is none, or has no body we know, is refused") {
  CHECK(refusal(std::string("\xff\xff\xff")) ==
        "header: got 3 bytes that are no header, expected proto/paceline.proto's Header");
  const std::string no_body =
      "header: got no body, or one this version does not know; expected field 1 to 44";
  CHECK(refusal(std::string()) == no_body);
  CHECK(refusal(std::string("\x92\x03\x00", 3)) == no_body);  // field 50
  // Beside what is for the transport it is not passed over either.
  const std::string let_go = encode(Beside{.let_go = {1, 300}});
  REQUIRE(decode_header(let_go).is_ok());
  CHECK_FALSE(decode_header(let_go)->body.has_value());
  CHECK(decode_header(let_go + std::string("\x92\x03\x00", 3)).status().message() ==
        "header: got no body but unknown fields, expected a body or neither");
  CHECK(refusal(std::string(kHeaderBytesMax + 1, '\0')) ==
        "header: got 1048577 bytes, expected at most 1048576");
}

TEST_CASE("what lies in another message's header is refused unless it is one of an iteration's, by itself") {
  const auto with = [](const proto::Header& other, int times = 1) {
    proto::Header h = report();
    for (int i = 0; i < times; ++i)
      (i % 2 == 0 ? h.add_before() : h.add_after())->assign(other.SerializeAsString());
    const auto header = decode_header(h.SerializeAsString());
    return header.is_ok() ? "accepted" : header.status().message();
  };
  CHECK(with(grant()) == "accepted");
  CHECK(with(push()) == "accepted");  // of an empty range
  CHECK(with(grant(), 15) == "accepted");
  CHECK(with(grant(), 16) == "header: got 17 messages, expected at most 16");
  CHECK(with(join()) == "header: got a Join together with another message, expected it by itself");
  const std::string no_body =
      "header: got no body, or one this version does not know; expected field 1 to 44";
  CHECK(with({}) == no_body);
  proto::Header spoilt = grant();
  spoilt.add_after(grant().SerializeAsString());
  CHECK(with(spoilt) == "header: got more than a message in another's header, expected one");
  spoilt = grant();
  spoilt.set_reads_segment(true);
  CHECK(with(spoilt) == "header: got more than a message in another's header, expected one");
  spoilt = push();
  spoilt.mutable_push()->set_offset(4);
  CHECK(with(spoilt) == "Push.payload: got 0 bytes, expected at least one float (offset 4)");
  spoilt = grant();
  spoilt.mutable_grant()->set_clock(-1);
  CHECK(with(spoilt) == "Grant.clock: got -1, expected 0 to 1152921504606846976");
  proto::Header h = join();
  h.add_before(grant().SerializeAsString());
  CHECK(refusal(h) == "header: got a Join together with another message, expected it by itself");
  h = report();
  h.add_after("\xff\xff\xff");
  CHECK(refusal(h) == "header: got 3 bytes that are no header, expected proto/paceline.proto's Header");
  h = proto::Header();
  h.add_before(grant().SerializeAsString());
  CHECK(refusal(h) == no_body);
  h = report();
  h.add_before(grant().SerializeAsString());
  CHECK(refusal(h) == "header: got several messages, expected one");
}

TEST_CASE("numbers out of range are refused") {
  proto::Header h = push();
  SECTION("a negative offset") {
    h.mutable_push()->set_offset(-4);
    CHECK(refusal(h, zeros(4)) == "Push.offset: got -4, expected 0 to 1099511627776");
  }
  SECTION("an offset whose end overflows") {
    h.mutable_push()->set_offset(kFloatsMax);
    CHECK(refusal(h, zeros(4)) ==
          "Push.payload: got 4 bytes, expected offset 1099511627776 + floats at most 2^40");
  }
  SECTION("a clock that could not be counted on from") {
    h.mutable_push()->set_clock(std::numeric_limits<std::int64_t>::max());
    CHECK(refusal(h, zeros(4)) == "Push.clock: got 9223372036854775807, expected 0 to 1152921504606846976");
  }
  SECTION("a gradient of no samples") {
    h.mutable_push()->set_samples(0);
    CHECK(refusal(h, zeros(4)) == "Push.samples: got 0, expected 1 to 4294967296");
  }
  SECTION("samples before the last piece") {
    h.mutable_push()->set_last(false);
    CHECK(refusal(h, zeros(4)) == "Push.samples: got 1, expected 0 to 0");
  }
  SECTION("a withdrawal of no clock") {
    h.mutable_withdraw()->mutable_worker();
    h.mutable_withdraw()->set_clock(-1);
    CHECK(refusal(h) == "Withdraw.clock: got -1, expected 0 to 1152921504606846976");
  }
  SECTION("a gradient of so many samples that their sum could overflow") {
    h.mutable_push()->set_samples((std::int64_t{1} << 32) + 1);
    CHECK(refusal(h, zeros(4)) == "Push.samples: got 4294967297, expected 1 to 4294967296");
  }
  SECTION("a worker's thread beyond any node's") {
    h.mutable_push()->mutable_worker()->set_thread(4096);
    CHECK(refusal(h, zeros(4)) == "Push.worker.thread: got 4096, expected 0 to 4095");
  }
  SECTION("a negative version") {
    h.mutable_push()->set_computed_version(-1);
    CHECK(refusal(h, zeros(4)) == "Push.computed_version: got -1, expected 0 to 1152921504606846976");
  }
  SECTION("fewer own updates than none") {
    h.mutable_push()->set_own_updates(-1);
    CHECK(refusal(h, zeros(4)) == "Push.own_updates: got -1, expected 0 to 1152921504606846976");
  }
}

TEST_CASE("a part that must be there is not taken for zero when it is missing") {
  proto::Header h = push();
  h.mutable_push()->clear_worker();
  CHECK(refusal(h, zeros(4)) == "Push.worker: got nothing, expected a value");
  proto::Header w;
  w.mutable_withdraw()->set_clock(4);
  CHECK(refusal(w) == "Withdraw.worker: got nothing, expected a value");
  proto::Header r = report();
  r.mutable_step_report()->clear_metric();
  CHECK(refusal(r) == "StepReport.metric: got nothing, expected a value");
  proto::Header held;
  held.mutable_held_notice()->mutable_worker();
  held.mutable_held_notice()->mutable_threshold()->set_clocks(1);
  CHECK(refusal(held) == "HeldNotice.waits_for: got nothing, expected a value");
}

TEST_CASE("a threshold is a number or infinite, said explicitly") {
  proto::Header h = grant();
  const std::string neither = "Grant.threshold: got neither a number nor infinite, expected one of them";
  SECTION("missing") {
    h.mutable_grant()->clear_threshold();
    CHECK(refusal(h) == neither);
  }
  SECTION("'infinite: no'") {
    h.mutable_grant()->mutable_threshold()->set_infinite(false);
    CHECK(refusal(h) == neither);
  }
  SECTION("the large number that stands for infinity inside") {
    h.mutable_grant()->mutable_threshold()->set_clocks(std::numeric_limits<std::int64_t>::max());
    CHECK(refusal(h) == "Grant.threshold: got 9223372036854775807, expected 0 to 1152921504606846976");
  }
}

TEST_CASE("learning rates and scales are finite") {
  proto::Header h = grant();
  h.mutable_grant()->set_learning_rate(std::numeric_limits<double>::quiet_NaN());
  CHECK(refusal(h) == "Grant.learning_rate: got nan, expected a finite number >= 0");
  h.mutable_grant()->set_learning_rate(-0.5);
  CHECK(refusal(h) == "Grant.learning_rate: got -0.500000, expected a finite number >= 0");
  h = grant();
  h.mutable_grant()->set_local_scale(std::numeric_limits<double>::infinity());
  CHECK(refusal(h) == "Grant.local_scale: got inf, expected a finite number >= 0");
  h = grant();
  h.mutable_grant()->set_held_ns(-1);
  CHECK(refusal(h) == "Grant.held_ns: got -1, expected 0 to 1152921504606846976");
}

TEST_CASE("what the learning rate is multiplied by is finite, too") {
  proto::Header h;
  h.mutable_apply_decision()->set_combine(proto::EACH);
  h.mutable_apply_decision()->set_rate_scale(std::numeric_limits<double>::infinity());
  CHECK(refusal(h) == "ApplyDecision.rate_scale: got inf, expected a finite number >= 0");
}

TEST_CASE("a grant is for one sample at least, from the first position on") {
  proto::Header h = grant();
  h.mutable_grant()->set_samples(0);
  CHECK(refusal(h) == "Grant.samples: got 0, expected 1 to 4294967296");
  h.mutable_grant()->set_samples((std::int64_t{1} << 32) + 1);
  CHECK(refusal(h) == "Grant.samples: got 4294967297, expected 1 to 4294967296");
  h.mutable_grant()->set_samples(1);
  h.mutable_grant()->mutable_loss_scale()->set_scale(3.0);
  CHECK(refusal(h) ==
        "Grant.loss_scale: got 3.000000 for 0 steps, expected a power of two up to 16777216 for less than "
        "2000");
  h = grant();
  h.mutable_grant()->set_position(-1);
  CHECK(refusal(h) == "Grant.position: got -1, expected 0 to 1152921504606846976");
}

TEST_CASE("a metric is finite unless it comes with its fault, and counts no more correct than there are") {
  proto::Header h = report();
  h.mutable_step_report()->mutable_metric()->set_loss_sum(std::numeric_limits<double>::quiet_NaN());
  CHECK(refusal(h) == "StepReport.metric.loss_sum: got nan, expected a finite number");
  h.mutable_step_report()->set_fault("loss is nan");
  CHECK(refusal(h) == "accepted");
  h = report();
  h.mutable_step_report()->mutable_metric()->set_samples((std::int64_t{1} << 32) + 1);
  CHECK(refusal(h) == "StepReport.metric.samples: got 4294967297, expected 0 to 4294967296");
  h = report();
  h.mutable_step_report()->mutable_metric()->set_samples(8);
  h.mutable_step_report()->mutable_metric()->set_correct(9);
  CHECK(refusal(h) == "StepReport.metric.correct: got 9, expected -1 to 8");
}

TEST_CASE("text is bounded and printable") {
  proto::Header h = report();
  h.mutable_step_report()->set_fault(std::string(4097, 'x'));
  CHECK(refusal(h) == "StepReport.fault: got 4097 bytes, expected 0 to 4096 bytes");
  h.mutable_step_report()->set_fault("\x1b[2J");
  CHECK(refusal(h) ==
        "StepReport.fault: got bytes that are not printable, expected UTF-8 without control characters");
}

TEST_CASE("codes outside their list are refused") {
  proto::Header h;
  h.mutable_run_over()->set_code(static_cast<proto::Code>(11));
  CHECK(refusal(h) == "RunOver.code: got 11, expected 0 to 10");
  h.mutable_error()->set_code(proto::OK);
  CHECK(refusal(h) == "Error.code: got 0, expected 1 to 10");
  h.mutable_apply_decision()->set_sequence(1);
  CHECK(refusal(h) == "ApplyDecision.combine: got 0, expected 1 to 2");
  h.mutable_apply_decision()->set_combine(static_cast<proto::Combine>(3));
  CHECK(refusal(h) == "ApplyDecision.combine: got 3, expected 1 to 2");
}

TEST_CASE("a join describes a model that can exist") {
  proto::Header h = join();
  proto::Tensor& tensor = *h.mutable_join()->mutable_tensors(0);
  SECTION("no threads") {
    h.mutable_join()->set_threads(0);
    CHECK(refusal(h) == "Join.threads: got 0, expected 1 to 4096");
  }
  SECTION("too many threads") {
    h.mutable_join()->set_threads(4097);
    CHECK(refusal(h) == "Join.threads: got 4097, expected 1 to 4096");
  }
  SECTION("no tensor") {
    h.mutable_join()->clear_tensors();
    CHECK(refusal(h) == "Join.tensors: got 0 elements, expected 1 to 65536");
  }
  SECTION("a tensor without a name") {
    tensor.set_name("");
    CHECK(refusal(h) == "Join.tensors.name: got 0 bytes, expected 1 to 256 bytes");
  }
  SECTION("a dimension of nothing") {
    tensor.set_shape(0, 0);
    CHECK(refusal(h) == "Join.tensors.shape: got 0, expected 1 to 1099511627776");
  }
  SECTION("a scalar has no dimensions, which is fine; seventeen are too many") {
    tensor.clear_shape();
    CHECK(refusal(h) == "accepted");
    for (int i = 0; i < 17; ++i) tensor.add_shape(1);
    CHECK(refusal(h) == "Join.tensors.shape: got 17 elements, expected 0 to 16");
  }
  SECTION("traits that no tensor has") {
    tensor.mutable_traits()->set_role(static_cast<proto::TensorRole>(4));
    CHECK(refusal(h) == "Join.tensors.traits.role: got 4, expected 0 to 3");
    tensor.mutable_traits()->set_role(proto::NORM);
    CHECK(refusal(h) == "accepted");
    tensor.mutable_traits()->set_lr_factor(-1.0);
    CHECK(refusal(h) == "Join.tensors.traits.lr_factor: got -1.000000, expected a finite number >= 0");
    tensor.mutable_traits()->set_lr_factor(0.0);
    tensor.mutable_traits()->set_decay_factor(HUGE_VAL);
    CHECK(refusal(h) == "Join.tensors.traits.decay_factor: got inf, expected a finite number >= 0");
  }
  SECTION("a size that overflows 64 bits") {
    for (int i = 0; i < 15; ++i) tensor.add_shape(1 << 30);
    CHECK(refusal(h) == "Join.tensors: got more than 2^40 floats in all, expected at most 2^40");
  }
  SECTION("tensors that are too large together") {
    tensor.set_shape(0, kFloatsMax);
    CHECK(refusal(h) == "accepted");
    *h.mutable_join()->add_tensors() = tensor;
    h.mutable_join()->mutable_tensors(1)->set_shape(0, 1);
    CHECK(refusal(h) == "Join.tensors: got more than 2^40 floats in all, expected at most 2^40");
  }
}

TEST_CASE("lists have the length they must have") {
  proto::Header h;
  for (int i = 0; i < 4097; ++i) h.mutable_unchanged()->add_applied(1);
  CHECK(refusal(h) == "Unchanged.applied: got 4097 elements, expected 0 to 4096");
  h.mutable_parameters()->set_offset(1);
  h.mutable_parameters()->add_applied(1);
  CHECK(refusal(h, zeros(4)) == "Parameters.applied: got clocks after the first piece, expected none");
  h = node_report();
  h.mutable_node_report()->mutable_workers(0)->mutable_phases()->RemoveLast();
  CHECK(refusal(h) == "NodeReport.workers.phases: got 8 elements, expected 9 to 9");
}

TEST_CASE("a histogram's buckets ascend and are not empty") {
  proto::Header h = node_report();
  proto::PhaseStat& stat = *h.mutable_node_report()->mutable_workers(0)->mutable_phases(0);
  stat.add_bucket(5);
  CHECK(refusal(h) == "NodeReport.workers.phases.bucket_count: got 0 elements, expected 1 to 1");
  stat.add_bucket_count(1);
  CHECK(refusal(h) == "accepted");
  stat.add_bucket(5);
  stat.add_bucket_count(1);
  CHECK(refusal(h) == "NodeReport.workers.phases.bucket: got 5, expected 6 to 65535");
  stat.set_bucket(1, 6);
  stat.set_bucket_count(1, 0);
  CHECK(refusal(h) == "NodeReport.workers.phases.bucket_count: got 0, expected 1 to 1152921504606846976");
}

TEST_CASE("generations count from one, and nobody has been in generation minus one") {
  proto::Header h = join();
  h.mutable_join()->set_last_generation(~std::uint64_t{0});
  CHECK(refusal(h) == "Join.last_generation: got -1, expected 0 to 1152921504606846976");
  h.mutable_join()->set_last_generation(0);
  h.mutable_join()->set_goes_on(~std::uint64_t{0});
  CHECK(refusal(h) == "Join.goes_on: got -1, expected 0 to 1152921504606846976");
  h.mutable_join()->set_goes_on(0);
  h.mutable_join()->set_connection(0);
  CHECK(refusal(h) == "Join.connection: got 0, expected 1 to 1152921504606846976");
  h.mutable_welcome();
  CHECK(refusal(h) == "Welcome.generation: got 0, expected 1 to 1152921504606846976");
  h.mutable_shard_welcome();
  CHECK(refusal(h) == "ShardWelcome.generation: got 0, expected 1 to 1152921504606846976");
  h.mutable_shard_welcome()->set_generation(2);
  CHECK(refusal(h) == "accepted");
  h.mutable_shard_welcome()->mutable_resume_from()->set_version(8);
  CHECK(refusal(h) == "ShardWelcome.generation: got 0, expected 1 to 1152921504606846976");
}

TEST_CASE("which checkpoint, and of what file, is said whole") {
  proto::Header h;
  h.mutable_forget_saved();
  CHECK(refusal(h) == "ForgetSaved.oldest_kept: got nothing, expected a value");
  h.mutable_saved()->set_version(-1);
  CHECK(refusal(h) == "Saved.version: got -1, expected 0 to 1152921504606846976");
  h.mutable_saved()->set_version(8);
  CHECK(refusal(h) == "Saved.digest: got nothing, expected a value");
  h.mutable_saved()->mutable_digest()->set_bytes(~std::uint64_t{0});
  CHECK(refusal(h) == "Saved.digest.bytes: got -1, expected 0 to 1152921504606846976");
  h.mutable_shard_join()->set_protocol_version(kProtocolVersion);
  CHECK(refusal(h) == "ShardJoin.connection: got 0, expected 1 to 1152921504606846976");
  h.mutable_shard_join()->set_connection(1);
  proto::IntactFile& file = *h.mutable_shard_join()->add_intact();
  CHECK(refusal(h) == "ShardJoin.intact.checkpoint: got nothing, expected a value");
  file.mutable_checkpoint()->set_generation(1);
  CHECK(refusal(h) == "ShardJoin.intact.digest: got nothing, expected a value");
  file.mutable_digest();
  CHECK(refusal(h) == "accepted");
  for (int i = 0; i < 4096; ++i) *h.mutable_shard_join()->add_intact() = file;
  CHECK(refusal(h) == "ShardJoin.intact: got 4097 elements, expected 0 to 4096");
}

TEST_CASE("a shard's range is not turned around") {
  proto::Header h;
  h.mutable_welcome()->set_generation(1);
  h.mutable_welcome()->set_begin(8);
  h.mutable_welcome()->set_end(4);
  CHECK(refusal(h) == "Welcome.begin: got 8, expected 0 to 4");
}

TEST_CASE("a payload comes where it belongs, whole floats and at most 1 MiB") {
  CHECK(refusal(grant(), zeros(4)) == "Grant.payload: got 4 bytes, expected none");
  proto::Header w;
  w.mutable_withdraw()->mutable_worker();
  CHECK(refusal(w) == "accepted");
  CHECK(refusal(w, zeros(4)) == "Withdraw.payload: got 4 bytes, expected none");
  CHECK(refusal(push(), zeros(6)) == "Push.payload: got 6 bytes, expected a multiple of 4");
  CHECK(refusal(push(), zeros(kPayloadBytesMax)) == "accepted");
  CHECK(refusal(push(), zeros(kPayloadBytesMax + 4)) ==
        "Push.payload: got 1048580 bytes, expected at most 1048576");
  proto::Header h = push();
  h.mutable_push()->set_last(false);
  h.mutable_push()->set_samples(0);
  CHECK(refusal(h) == "Push.payload: got 0 bytes, expected at least one float (offset 0)");
  h = push();
  h.mutable_push()->set_offset(4);
  CHECK(refusal(h) == "Push.payload: got 0 bytes, expected at least one float (offset 4)");
  CHECK(refusal(push()) == "accepted");  // an empty shard
}

TEST_CASE("a payload in fewer bytes has as many as its encoding and its floats ask for") {
  const auto reported = [](int encoding, std::int64_t floats) {
    proto::Header h = push();
    h.mutable_push()->set_encoding(static_cast<proto::Encoding>(encoding));
    h.mutable_push()->set_floats(floats);
    return h;
  };
  CHECK(refusal(reported(1, 3), zeros(6)) == "accepted");
  CHECK(refusal(reported(1, 3), zeros(5)) == "Push.payload: got 5 bytes, expected 3 floats as fp16");
  CHECK(refusal(reported(2, 2), zeros(6)) == "Push.payload: got 6 bytes, expected 2 floats as bf16");
  CHECK(refusal(reported(3, 3), zeros(7)) == "accepted");
  CHECK(refusal(reported(3, 3), zeros(8)) == "Push.payload: got 8 bytes, expected 3 floats as int8");
  CHECK(refusal(reported(3, 0), zeros(4)) == "Push.payload: got 4 bytes, expected 0 floats as int8");
  CHECK(refusal(reported(4, 3), zeros(16)) == "accepted");
  CHECK(refusal(reported(4, 3), zeros(12)) == "Push.payload: got 12 bytes, expected 3 floats as top_k");
  CHECK(refusal(reported(4, 3), zeros(32)) == "Push.payload: got 32 bytes, expected 3 floats as top_k");
  CHECK(refusal(reported(4, 3)) == "Push.payload: got 0 bytes, expected 3 floats as top_k");
  CHECK(refusal(reported(3, 0)) == "accepted");  // an empty shard
  CHECK(refusal(reported(6, 3), zeros(4)) == "Push.encoding: got 6, expected 0 to 5");
  CHECK(refusal(reported(-1, 3), zeros(4)) == "Push.encoding: got -1, expected 0 to 5");
  CHECK(refusal(reported(0, 1), zeros(4)) == "Push.floats: got 1, expected 0 to 0");
  CHECK(refusal(reported(1, -1), zeros(4)) == "Push.floats: got -1, expected 0 to 262144");
  CHECK(refusal(reported(4, kPayloadFloatsMax + 1), zeros(8)) ==
        "Push.floats: got 262145, expected 0 to 262144");
  proto::Header h;
  h.mutable_parameters()->set_last(true);
  h.mutable_parameters()->set_encoding(proto::BF16);
  h.mutable_parameters()->set_floats(2);
  CHECK(refusal(h, zeros(4)) == "accepted");
  h.mutable_parameters()->set_encoding(proto::INT8);
  CHECK(refusal(h, zeros(6)) == "Parameters.encoding: got 3, expected 0 to 2");
}

TEST_CASE("encode() refuses the same payloads as decode()") {
  const Payload half = zeros(2);
  CHECK(encode({InitialParameters{.last = true}, {half.owner, half.data, 2, Encoding::kFp16, 1}})
            .status()
            .message() == "InitialParameters.payload: got 2 bytes, expected none as fp16");
  CHECK(encode({Heartbeat{}, zeros(4)}).status().message() ==
        "Heartbeat.payload: got 4 bytes, expected none");
  CHECK(encode({Push{.samples = 1}, {}}).status().message() ==
        "Push.payload: got 0 bytes, expected at least one float (offset 0)");
}

}  // namespace
}  // namespace paceline::wire
