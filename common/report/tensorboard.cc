// Events and their framing.
#include "common/report/tensorboard.h"

#include <algorithm>
#include <array>
#include <boost/crc.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "common/files/atomic_file.h"
#include "proto/tensorboard.pb.h"

namespace paceline {
namespace {

constexpr const char* kEventFilePrefix = "events.out.tfevents.";
constexpr const char* kEventFileVersion = "brain.Event:2";
constexpr std::string_view kPhaseTags = "phases/";

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

std::string phase_tag(const char* phase, NodeId node) {
  return std::string(kPhaseTags) + phase + "/node_" + to_string(node);
}

std::string record_of(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + little_endian(masked_crc32c(length)) + event + little_endian(masked_crc32c(event));
}

// The Event of the record that `bytes` begin with; empty where that is not whole.
std::optional<std::string_view> first_event(std::string_view bytes) {
  constexpr std::size_t kHead = 12, kTail = 4;
  if (bytes.size() < kHead + kTail) return std::nullopt;
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  const std::string_view sum = bytes.substr(8, 4);
  if (sum != little_endian(masked_crc32c(bytes.substr(0, 8)))) return std::nullopt;
  if (length > bytes.size() - kHead - kTail) return std::nullopt;
  const std::string_view event = bytes.substr(kHead, length);
  const bool whole = bytes.substr(kHead + length, kTail) == little_endian(masked_crc32c(event));
  return whole ? std::optional(event) : std::nullopt;
}

bool is_of_an_end(const tensorboard::Event& event) {
  return event.summary().value_size() > 0 && event.summary().value(0).tag().starts_with(kPhaseTags);
}

// What is left of a file's records for a run that goes on from version `from`.
std::string cut(std::string_view bytes, Version from) {
  std::string kept;
  while (const auto event = first_event(bytes)) {
    const std::string_view record = bytes.substr(0, event->size() + 16);
    bytes.remove_prefix(record.size());
    tensorboard::Event parsed;
    const bool read = parsed.ParseFromArray(event->data(), static_cast<int>(event->size()));
    if (read && parsed.step() <= from.value && !is_of_an_end(parsed)) kept += record;
  }
  return kept;
}

// The greatest number after "events.out.tfevents."; -1 where there is no such file.
std::int64_t newest_second(const std::filesystem::path& run_dir) {
  std::int64_t newest = -1;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run_dir, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!is_event_file(name)) continue;
    std::int64_t second = -1;
    std::from_chars(name.data() + std::strlen(kEventFilePrefix), name.data() + name.size(), second);
    newest = std::max(newest, second);
  }
  return newest;
}

}  // namespace

bool is_event_file(std::string_view name) { return name.starts_with(kEventFilePrefix); }

Status cut_event_files(const std::filesystem::path& run_dir, Version from) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run_dir, error), end; !error && it != end;
       it.increment(error)) {
    if (is_event_file(it->path().filename().string())) files.push_back(it->path());
  }
  Status first = Status::ok();
  for (const std::filesystem::path& file : files) {
    Status done = Status::ok();
    const Result<std::string> bytes = read_file(file, std::numeric_limits<std::size_t>::max());
    if (!bytes.is_ok()) {
      done = bytes.status();
    } else if (first_event(*bytes)) {
      const std::string kept = cut(*bytes, from);
      if (kept != *bytes) done = write_file_atomically(file, kept);
    }
    if (first.is_ok()) first = std::move(done);
  }
  return first;
}

Result<EventFile> EventFile::begin(const std::filesystem::path& run_dir, double second_zero,
                                   std::uint64_t session, Version from) {
  EventFile file;
  std::array<char, 80> name{};
  const std::int64_t second =
      std::max(static_cast<std::int64_t>(std::floor(second_zero)), newest_second(run_dir) + 1);
  std::snprintf(name.data(), name.size(), "%s%010lld.%06llu", kEventFilePrefix,
                static_cast<long long>(second), static_cast<unsigned long long>(session));
  file.path_ = run_dir / name.data();
  file.second_zero_ = second_zero;
  file.from_ = from;
  file.file_.open(file.path_, std::ios::binary | std::ios::trunc);
  if (!file.file_) return unavailable("cannot write " + file.path_.string() + ": " + std::strerror(errno));
  tensorboard::Event first = event_at(second_zero, Version(0));
  first.set_file_version(kEventFileVersion);
  PACELINE_RETURN_IF_ERROR(file.write(first.SerializeAsString()));
  return file;
}

Status EventFile::append(const CurveRow& row) {
  std::vector<Point> points = {{"train/loss", row.train_loss},
                               {"train/accuracy", row.train_accuracy},
                               {"test/loss", row.test_loss},
                               {"test/accuracy", row.test_accuracy},
                               {"train/learning_rate", row.learning_rate},
                               {"sync/lpr", row.lpr}};
  if (!row.threshold.is_infinite()) {
    points.push_back({"sync/threshold", static_cast<double>(row.threshold.value())});
  }
  return append(row.seconds, row.version, points);
}

Status EventFile::append(double seconds, Version step, std::span<const Point> points) {
  tensorboard::Event event = event_at(second_zero_ + seconds, step);
  for (const Point& point : points) {
    if (!point.value || (step <= from_ && !point.tag.starts_with(kPhaseTags))) continue;
    const auto [newest, is_first] = newest_.try_emplace(point.tag, step);
    if (!is_first && newest->second >= step) continue;
    newest->second = step;
    tensorboard::Summary::Value& added = *event.mutable_summary()->add_value();
    added.set_tag(point.tag);
    added.set_simple_value(static_cast<float>(*point.value));
  }
  if (!event.has_summary()) return Status::ok();
  if (!std::exchange(has_points_, true)) {
    tensorboard::Event start = event_at(second_zero_ + seconds, step);
    start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    PACELINE_RETURN_IF_ERROR(write(start.SerializeAsString()));
  }
  return write(event.SerializeAsString());
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
    std::vector<Point> points;
    const auto mean = [of = sum.workers](std::int64_t ns) { return static_cast<double>(ns) * 1e-9 / of; };
    for (std::size_t i = 0; i < kPhaseCount; ++i) {
      points.push_back({phase_tag(kPhaseNames[i], node), mean(sum.totals.phases[i].total_ns)});
    }
    points.push_back({phase_tag("unaccounted", node), mean(unaccounted_ns(sum.totals))});
    PACELINE_RETURN_IF_ERROR(append(seconds, version, points));
  }
  return Status::ok();
}

Status EventFile::write(const std::string& event) {
  file_ << record_of(event) << std::flush;
  if (!file_) return unavailable("cannot write " + path_.string() + ": " + std::strerror(errno));
  return Status::ok();
}

}  // namespace paceline
