#include "common/wire/codec_decode_servers.h"

#include "common/wire/codec.h"
#include "common/wire/codec_parts.h"

namespace paceline::wire {
namespace {

template <typename List>
std::vector<Contribution> contributions_of(Fields& f, const List& in, const char* field) {
  std::vector<Contribution> out;
  if (!f.length(field, in.size(), 0, kContributionsMax)) return out;
  out.reserve(static_cast<std::size_t>(in.size()));
  for (const proto::Contribution& c : in) {
    out.push_back({worker_of(f, c), clock_of(f, c.clock()), samples_of(f, c.samples()),
                   f.number("staleness", c.staleness(), 0, kCountMax)});
  }
  return out;
}

CheckpointFile file_of(Fields& f, std::uint32_t file) {
  return static_cast<CheckpointFile>(f.number("file", file, 0, static_cast<int>(CheckpointFile::kManifest)));
}

}  // namespace

Body read(Fields& f, const proto::ShardJoin& in) {
  ShardJoin m{in.protocol_version(), shard_of(f, in.shard()), 0};
  if (m.protocol_version != kProtocolVersion) return m;
  m.config_fingerprint = in.config_fingerprint();
  m.resumes = in.resumes();
  if (!f.length("intact", in.intact_size(), 0, kIntactMax)) return m;
  for (const proto::IntactFile& file : in.intact()) {
    m.intact.push_back({checkpoint_of(f, file, "intact.checkpoint"), digest_of(f, file, "intact.digest")});
  }
  m.incarnation = in.incarnation();
  m.goes_on = generation_of(f, in.goes_on(), "goes_on", 0);
  m.connection = f.number("connection", in.connection(), 1, kCountMax);
  m.acked = f.number("acked", in.acked(), 0, kCountMax);
  m.settings = settings_of(f, in.settings());
  return m;
}

Body read(Fields& f, const proto::ShardWelcome& in) {
  ShardWelcome m{generation_of(f, in.generation()), {}};
  if (in.has_resume_from()) m.resume_from = checkpoint_of(f, in.resume_from());
  m.acked = f.number("acked", in.acked(), 0, kCountMax);
  return m;
}

Body read(Fields& f, const proto::ShardReady& in) {
  return ShardReady{shard_of(f, in.shard()), in.layout_hash(), version_of(f, in.version())};
}

Body read(Fields& f, const proto::GradientArrived& in) {
  return GradientArrived{shard_of(f, in.shard()), worker_of(f, in), clock_of(f, in.clock()),
                         samples_of(f, in.samples()), text_of(f, in.fault(), "fault")};
}

Body read(Fields& f, const proto::ApplyDecision& in) {
  ApplyDecision m;
  m.sequence = f.number("sequence", in.sequence(), 0, kCountMax);
  m.contributions = contributions_of(f, in.contributions(), "contributions");
  m.skipped = contributions_of(f, in.skipped(), "skipped");
  m.combine = f.number("combine", in.combine(), proto::EACH, proto::MEAN) == proto::MEAN ? Combine::kMean
                                                                                         : Combine::kEach;
  m.learning_rate = f.finite("learning_rate", in.learning_rate());
  m.version_after = version_of(f, in.version_after(), "version_after");
  m.revision_after = revision_of(f, in.revision_after(), "revision_after");
  m.retain = in.retain();
  m.save = in.save();
  m.apply = apply_of(in.eager());
  m.rate_scale = f.finite("rate_scale", in.rate_scale());
  return m;
}

Body read(Fields& f, const proto::DiscardGradient& in) {
  return DiscardGradient{worker_of(f, in), clock_of(f, in.clock())};
}

Body read(Fields& f, const proto::NodeLost& in) {
  return NodeLost{node_of(f, in.node()), text_of(f, in.why(), "why"), in.incarnation(), in.out_of_reach()};
}

Body read(Fields& f, const proto::NodeAdmitted& in) {
  return NodeAdmitted{node_of(f, in.node()), in.incarnation()};
}

Body read(Fields& f, const proto::Release& in) { return Release{version_of(f, in.version())}; }

Body read(Fields& f, const proto::Saved& in) {
  return Saved{shard_of(f, in.shard()), version_of(f, in.version()), digest_of(f, in, "digest"),
               text_of(f, in.fault(), "fault")};
}

Body read(Fields& f, const proto::ForgetSaved& in) {
  if (!f.present("oldest_kept", in.has_oldest_kept())) return ForgetSaved{};
  ForgetSaved m{checkpoint_of(f, in.oldest_kept())};
  if (!f.length("spared", in.spared_size(), 0, kSparedMax)) return m;
  for (const proto::Checkpoint& id : in.spared()) m.spared.push_back(checkpoint_of(f, id));
  return m;
}

Body read(Fields& f, const proto::StopRun& in) { return StopRun{text_of(f, in.reason(), "reason")}; }

Body read(Fields& f, const proto::ShardReport& in) {
  return ShardReport{shard_of(f, in.shard()),
                     f.number("bytes_pushed", in.bytes_pushed(), 0, kCountMax),
                     f.number("bytes_pulled", in.bytes_pulled(), 0, kCountMax),
                     f.number("pulls", in.pulls(), 0, kCountMax),
                     f.number("malformed", in.malformed(), 0, kCountMax),
                     f.number("bytes_shared", in.bytes_shared(), 0, kCountMax),
                     f.number("reconnects", in.reconnects(), 0, kCountMax)};
}

Body read(Fields& f, const proto::ReplicaJoin& in) {
  ReplicaJoin m;
  m.protocol_version = in.protocol_version();
  m.shard = shard_of(f, in.shard());
  if (m.protocol_version != kProtocolVersion) return m;  // the rest may mean something else there
  m.config_fingerprint = in.config_fingerprint();
  m.incarnation = in.incarnation();
  if (in.has_has()) m.has = checkpoint_of(f, in.has());
  m.settings = settings_of(f, in.settings());
  return m;
}

Body read(Fields& f, const proto::Reconfigure& in) { return Reconfigure{text_of(f, in.reason(), "reason")}; }

Body read(Fields& f, const proto::ReplicaResumes& in) {
  return ReplicaResumes{checkpoint_of(f, in.from()), f.number("shard_bytes", in.shard_bytes(), 0, kCountMax),
                        f.number("manifest_bytes", in.manifest_bytes(), 0, kCountMax)};
}

Body read(Fields& f, const proto::FilePull& in) {
  return FilePull{file_of(f, in.file()), f.number("offset", in.offset(), 0, kCountMax)};
}

Body read(Fields& f, const proto::FilePiece& in) {
  return FilePiece{file_of(f, in.file()), f.number("offset", in.offset(), 0, kCountMax)};
}

Body read(Fields& f, const proto::ReplicaWelcome& in) {
  return ReplicaWelcome{generation_of(f, in.generation()), in.incarnation(),
                        f.number("began", in.began(), -kCountMax, kCountMax)};
}

Body read(Fields& f, const proto::LogAck& in) { return LogAck{f.number("count", in.count(), 0, kCountMax)}; }

Body read(Fields& f, const proto::LocalEvent& in) {
  using What = LocalEvent::What;
  return LocalEvent{static_cast<What>(f.number("what", in.what(), 0, static_cast<int>(What::kSave))),
                    f.number("number", in.number(), 0, kCountMax), code_of(f, in.code(), StatusCode::kOk),
                    text_of(f, in.text(), "text")};
}

Result<std::optional<LogEntry>> logged_of(const proto::Header& header) {
  if (!header.has_logged()) return std::optional<LogEntry>();
  using As = LogEntry::As;
  const proto::LogEntry& in = header.logged();
  Fields f("LogEntry");
  LogEntry logged{static_cast<As>(f.number("as", in.as(), 0, static_cast<int>(As::kSent))),
                  f.number("number", in.number(), 0, kCountMax), in.ends_turn(),
                  f.number("at", in.at(), -kCountMax, kCountMax)};
  const auto node = static_cast<std::uint32_t>(f.number("node", in.node(), 0, kNodesMax));
  const auto shard = static_cast<std::uint32_t>(f.number("shard", in.shard(), 0, kShardsMax));
  if (node > 0) logged.node = NodeId(node - 1);
  if (shard > 0) logged.shard = ShardId(shard - 1);
  if (!f.is_ok()) return f.status();
  return std::optional(logged);
}

}  // namespace paceline::wire
