#include "common/wire/codec_encode_servers.h"

#include "common/wire/codec_put.h"

namespace paceline::wire {
namespace {

using wire::put;  // which those here would hide

void put(const Contribution& contribution, proto::Contribution& out) {
  put(contribution.worker, *out.mutable_worker());
  out.set_clock(contribution.clock.value);
  out.set_samples(contribution.samples);
  out.set_staleness(contribution.staleness);
}

}  // namespace

void put(const ShardJoin& m, proto::ShardJoin& out) {
  out.set_protocol_version(m.protocol_version);
  out.set_shard(m.shard.value);
  out.set_config_fingerprint(m.config_fingerprint);
  out.set_resumes(m.resumes);
  for (const IntactFile& file : m.intact) {
    proto::IntactFile& f = *out.add_intact();
    put(file.checkpoint, *f.mutable_checkpoint());
    put(file.digest, *f.mutable_digest());
  }
  out.set_incarnation(m.incarnation);
  out.set_goes_on(m.goes_on);
  out.set_connection(m.connection);
  out.set_acked(m.acked);
  put(m.settings, *out.mutable_settings());
}

void put(const ShardWelcome& m, proto::ShardWelcome& out) {
  out.set_generation(m.generation);
  if (m.resume_from) put(*m.resume_from, *out.mutable_resume_from());
  out.set_acked(m.acked);
}

void put(const ShardReady& m, proto::ShardReady& out) {
  out.set_shard(m.shard.value);
  out.set_layout_hash(m.layout_hash);
  out.set_version(m.version.value);
}

void put(const GradientArrived& m, proto::GradientArrived& out) {
  out.set_shard(m.shard.value);
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
  out.set_samples(m.samples);
  out.set_fault(text(m.fault));
}

void put(const ApplyDecision& m, proto::ApplyDecision& out) {
  out.set_sequence(m.sequence);
  for (const Contribution& c : m.contributions) put(c, *out.add_contributions());
  for (const Contribution& c : m.skipped) put(c, *out.add_skipped());
  out.set_combine(m.combine == Combine::kMean ? proto::MEAN : proto::EACH);
  out.set_learning_rate(m.learning_rate);
  out.set_version_after(m.version_after.value);
  out.set_revision_after(m.revision_after.value);
  out.set_retain(m.retain);
  out.set_save(m.save);
  out.set_eager(m.apply == ApplyMode::kEager);
  out.set_rate_scale(m.rate_scale);
}

void put(const DiscardGradient& m, proto::DiscardGradient& out) {
  put(m.worker, *out.mutable_worker());
  out.set_clock(m.clock.value);
}

void put(const NodeLost& m, proto::NodeLost& out) {
  out.set_node(m.node.value);
  out.set_why(text(m.why));
  out.set_incarnation(m.incarnation);
  out.set_out_of_reach(m.out_of_reach);
}

void put(const NodeAdmitted& m, proto::NodeAdmitted& out) {
  out.set_node(m.node.value);
  out.set_incarnation(m.incarnation);
}

void put(const Release& m, proto::Release& out) { out.set_version(m.version.value); }

void put(const Saved& m, proto::Saved& out) {
  out.set_shard(m.shard.value);
  out.set_version(m.version.value);
  put(m.digest, *out.mutable_digest());
  out.set_fault(text(m.fault));
}

void put(const ForgetSaved& m, proto::ForgetSaved& out) {
  put(m.oldest_kept, *out.mutable_oldest_kept());
  for (const CheckpointId id : m.spared) put(id, *out.add_spared());
}

void put(const StopRun& m, proto::StopRun& out) { out.set_reason(text(m.reason)); }

void put(const ShardReport& m, proto::ShardReport& out) {
  out.set_shard(m.shard.value);
  out.set_bytes_pushed(m.bytes_pushed);
  out.set_bytes_pulled(m.bytes_pulled);
  out.set_pulls(m.pulls);
  out.set_malformed(m.malformed);
  out.set_bytes_shared(m.bytes_shared);
  out.set_reconnects(m.reconnects);
}

void put(const ReplicaJoin& m, proto::ReplicaJoin& out) {
  out.set_protocol_version(m.protocol_version);
  out.set_shard(m.shard.value);
  out.set_config_fingerprint(m.config_fingerprint);
  out.set_incarnation(m.incarnation);
  if (m.has) put(*m.has, *out.mutable_has());
  put(m.settings, *out.mutable_settings());
}

void put(const ReplicaWelcome& m, proto::ReplicaWelcome& out) {
  out.set_generation(m.generation);
  out.set_incarnation(m.incarnation);
  out.set_began(m.began);
}

void put(const Reconfigure& m, proto::Reconfigure& out) { out.set_reason(text(m.reason)); }

void put(const ReplicaResumes& m, proto::ReplicaResumes& out) {
  put(m.from, *out.mutable_from());
  out.set_shard_bytes(m.shard_bytes);
  out.set_manifest_bytes(m.manifest_bytes);
}

void put(const FilePull& m, proto::FilePull& out) {
  out.set_file(static_cast<std::uint32_t>(m.file));
  out.set_offset(m.offset);
}

void put(const FilePiece& m, proto::FilePiece& out) {
  out.set_file(static_cast<std::uint32_t>(m.file));
  out.set_offset(m.offset);
}

void put(const LogAck& m, proto::LogAck& out) { out.set_count(m.count); }

void put(const LocalEvent& m, proto::LocalEvent& out) {
  out.set_what(static_cast<std::uint32_t>(m.what));
  out.set_number(m.number);
  out.set_code(static_cast<proto::Code>(m.code));
  out.set_text(text(m.text));
}

}  // namespace paceline::wire
