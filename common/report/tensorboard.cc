// Events and their framing.
#include "common/report/tensorboard.h"

#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>

#include "proto/tensorboard.pb.h"

namespace paceline {
namespace {

constexpr const char* kEventFilePrefix = "events.out.tfevents.";
constexpr const char* kEventFileVersion = "brain.Event:2";

std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

template <typename Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Number); ++i) bytes += static_cast<char>((number >> (8 * i)) & 0xff);
  return bytes;
}

tensorboard::Event event_at(double wall_time, Version step) {
  tensorboard::Event event;
  event.set_wall_time(wall_time);
  event.set_step(step.value);
  return event;
}

void add(tensorboard::Event& event, const std::string& tag, std::optional<double> value) {
  if (!value) return;
  tensorboard::Summary::Value& added = *event.mutable_summary()->add_value();
  added.set_tag(tag);
  added.set_simple_value(static_cast<float>(*value));
}

std::string phase_tag(const char* phase, NodeId node) {
  return std::string("phases/") + phase + "/node_" + to_string(node);
}

}  // namespace

bool is_event_file(std::string_view name) { return name.starts_with(kEventFilePrefix); }

Result<EventFile> EventFile::begin(const std::filesystem::path& run_dir, double second_zero,
                                   std::optional<Version> resumed_from) {
  EventFile file;
  std::array<char, 80> name{};
  std::snprintf(name.data(), name.size(), "%s%010.0f.%lld", kEventFilePrefix, std::floor(second_zero),
                static_cast<long long>(resumed_from.value_or(Version(0)).value));
  file.path_ = run_dir / name.data();
  file.second_zero_ = second_zero;
  file.file_.open(file.path_, std::ios::binary | std::ios::trunc);
  if (!file.file_) return unavailable("cannot write " + file.path_.string() + ": " + std::strerror(errno));
  tensorboard::Event first = event_at(second_zero, Version(0));
  first.set_file_version(kEventFileVersion);
  PACELINE_RETURN_IF_ERROR(file.write(first.SerializeAsString()));
  if (resumed_from) {
    tensorboard::Event start = event_at(second_zero, Version(resumed_from->value + 1));
    start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    PACELINE_RETURN_IF_ERROR(file.write(start.SerializeAsString()));
  }
  return file;
}

Status EventFile::append(const CurveRow& row) {
  tensorboard::Event event = event_at(second_zero_ + row.seconds, row.version);
  // An evaluation's row may come behind those of later versions, and a series that steps back is begun anew.
  if (row.version > train_until_ && row.train_loss) {
    add(event, "train/loss", row.train_loss);
    add(event, "train/accuracy", row.train_accuracy);
    train_until_ = row.version;
  }
  add(event, "test/loss", row.test_loss);
  add(event, "test/accuracy", row.test_accuracy);
  add(event, "sync/lpr", row.lpr);
  if (row.version > threshold_until_ && !row.threshold.is_infinite()) {
    add(event, "sync/threshold", static_cast<double>(row.threshold.value()));
    threshold_until_ = row.version;
  }
  return event.has_summary() ? write(event.SerializeAsString()) : Status::ok();
}

Status EventFile::append(std::span<const WorkerPhases> workers, Version version, double seconds) {
  struct Sum {
    PhaseTotals totals;
    int workers = 0;
  };
  std::map<NodeId, Sum> nodes;
  for (const auto& [worker, totals] : workers) {
    merge(nodes[worker.node].totals, totals);
    ++nodes[worker.node].workers;
  }
  for (const auto& [node, sum] : nodes) {
    tensorboard::Event event = event_at(second_zero_ + seconds, version);
    const auto mean = [of = sum.workers](std::int64_t ns) { return static_cast<double>(ns) * 1e-9 / of; };
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      add(event, phase_tag(kPhaseNames[i], node), mean(sum.totals.phases[i].total_ns));
    }
    add(event, phase_tag("unaccounted", node), mean(unaccounted_ns(sum.totals)));
    PACELINE_RETURN_IF_ERROR(write(event.SerializeAsString()));
  }
  return Status::ok();
}

Status EventFile::write(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  file_ << length + little_endian(masked_crc32c(length)) + event + little_endian(masked_crc32c(event))
        << std::flush;
  if (!file_) return unavailable("cannot write " + path_.string() + ": " + std::strerror(errno));
  return Status::ok();
}

}  // namespace paceline
