// What messages have in common, from a plain struct to its protobuf: only codec_encode*.cc include this.
#pragma once

#include <string>
#include <vector>

#include "common/wire/codec.h"
#include "common/wire/messages.h"
#include "common/wire/text.h"
#include "proto/paceline.pb.h"

namespace paceline::wire {

inline std::string text(const std::string& s) { return printable(s, kTextBytesMax); }

inline void put(WorkerId worker, proto::Worker& out) {
  out.set_node(worker.node.value);
  out.set_thread(worker.thread);
}

inline void put(Threshold threshold, proto::Threshold& out) {
  if (threshold.is_infinite()) {
    out.set_infinite(true);
  } else {
    out.set_clocks(threshold.value());
  }
}

inline void put(const Metric& metric, proto::Metric& out) {
  out.set_loss_sum(metric.loss_sum);
  out.set_correct(metric.correct);
  out.set_samples(metric.samples);
}

inline void put(CheckpointId id, proto::Checkpoint& out) {
  out.set_generation(id.generation);
  out.set_version(id.version.value);
}

inline void put(const FileDigest& digest, proto::Digest& out) {
  out.set_bytes(digest.bytes);
  out.set_checksum(digest.checksum);
}

inline void put(const std::vector<std::string>& settings,
                google::protobuf::RepeatedPtrField<std::string>& out) {
  for (const std::string& setting : settings) *out.Add() = text(setting);
}

}  // namespace paceline::wire
