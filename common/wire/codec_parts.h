// The parts that many messages share (who, when, how much), read from the network with one rule each. Each
// takes the reader of the message's fields, which remembers what is wrong (fields.h). Only codec_decode*.cc
// include this.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/fields.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

inline Clock clock_of(Fields& f, std::int64_t v, const char* field = "clock") {
  return Clock(f.number(field, v, 0, kCountMax));
}
inline Version version_of(Fields& f, std::int64_t v, const char* field = "version") {
  return Version(f.number(field, v, 0, kCountMax));
}
inline Revision revision_of(Fields& f, std::int64_t v, const char* field = "revision") {
  return Revision(f.number(field, v, 0, kCountMax));
}
inline NodeId node_of(Fields& f, std::uint32_t v) {
  return NodeId(static_cast<std::uint32_t>(f.number("node", v, 0, kNodesMax - 1)));
}
inline ShardId shard_of(Fields& f, std::uint32_t v) {
  return ShardId(static_cast<std::uint32_t>(f.number("shard", v, 0, kShardsMax - 1)));
}
inline std::uint64_t generation_of(Fields& f, std::uint64_t v, const char* field = "generation",
                                   std::int64_t min = 1) {
  return static_cast<std::uint64_t>(f.number(field, static_cast<std::int64_t>(v), min, kCountMax));
}
inline std::int64_t samples_of(Fields& f, std::int64_t v, std::int64_t min = 0) {
  return f.number("samples", v, min, kSamplesMax);
}
inline std::chrono::nanoseconds held_of(Fields& f, std::int64_t ns) {
  return std::chrono::nanoseconds(f.number("held_ns", ns, 0, kCountMax));
}
inline std::string text_of(Fields& f, const std::string& v, const char* field) {
  return f.text(field, v, 0, kTextBytesMax);
}

// Every message that names a worker, a threshold or a metric must have one: a missing part is not worker 0.0.
template <typename M>
WorkerId worker_of(Fields& f, const M& in) {
  if (!f.present("worker", in.has_worker())) return {};
  return {static_cast<std::uint32_t>(f.number("worker.node", in.worker().node(), 0, kNodesMax - 1)),
          static_cast<std::uint32_t>(f.number("worker.thread", in.worker().thread(), 0, kThreadsMax - 1))};
}

template <typename M>
Threshold threshold_of(Fields& f, const M& in) {
  switch (in.threshold().kind_case()) {
    case proto::Threshold::kClocks:
      return Threshold(f.number("threshold", in.threshold().clocks(), 0, kCountMax));
    case proto::Threshold::kInfinite:
      if (in.threshold().infinite()) return Threshold::infinite();
      break;
    case proto::Threshold::KIND_NOT_SET:
      break;
  }
  f.refuse("threshold", "neither a number nor infinite", "one of them");
  return {};
}

// Only a metric that comes with its fault, or of a skipped iteration, may say that its loss is not a number.
template <typename M>
Metric metric_of(Fields& f, const M& in, bool loss_may_be_nan) {
  if (!f.present("metric", in.has_metric())) return {};
  Metric metric;
  metric.loss_sum = in.metric().loss_sum();
  if (!loss_may_be_nan && !std::isfinite(metric.loss_sum)) {
    f.refuse("metric.loss_sum", std::to_string(metric.loss_sum), "a finite number");
  }
  metric.samples = f.number("metric.samples", in.metric().samples(), 0, kSamplesMax);
  metric.correct = f.number("metric.correct", in.metric().correct(), Metric::kNotCounted, metric.samples);
  return metric;
}

inline CheckpointId checkpoint_of(Fields& f, const proto::Checkpoint& in) {
  const std::uint64_t generation = generation_of(f, in.generation());
  return {generation, version_of(f, in.version())};
}

// Of a message that must have them.
template <typename M>
CheckpointId checkpoint_of(Fields& f, const M& in, const char* field) {
  return f.present(field, in.has_checkpoint()) ? checkpoint_of(f, in.checkpoint()) : CheckpointId{};
}
template <typename M>
FileDigest digest_of(Fields& f, const M& in, const char* field) {
  if (!f.present(field, in.has_digest())) return {};
  const auto bytes = static_cast<std::int64_t>(in.digest().bytes());
  return {static_cast<std::uint64_t>(f.number("digest.bytes", bytes, 0, kCountMax)), in.digest().checksum()};
}

template <typename M>
std::vector<Clock> applied_of(Fields& f, const M& in) {
  std::vector<Clock> applied;
  if (!f.length("applied", in.applied_size(), 0, kThreadsMax)) return applied;
  for (std::int64_t clock : in.applied()) applied.push_back(clock_of(f, clock, "applied"));
  return applied;
}

inline ApplyMode apply_of(bool eager) { return eager ? ApplyMode::kEager : ApplyMode::kVersioned; }

inline std::vector<std::string> settings_of(Fields& f,
                                            const google::protobuf::RepeatedPtrField<std::string>& in) {
  std::vector<std::string> settings;
  if (!f.length("settings", in.size(), 0, kSettingsMax)) return settings;
  for (const std::string& setting : in) settings.push_back(text_of(f, setting, "settings"));
  return settings;
}

inline StatusCode code_of(Fields& f, int v, StatusCode least) {
  return static_cast<StatusCode>(
      f.number("code", v, static_cast<int>(least), static_cast<int>(StatusCode::kInternal)));
}

}  // namespace paceline::wire
