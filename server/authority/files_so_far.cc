#include "server/authority/files_so_far.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace paceline::server {

FilesSoFar::FilesSoFar(const RunConfig& config, const RunRecord& record, const WorkerSpeeds& speeds,
                       Background& background, const Log& log)
    : config_(config), record_(record), speeds_(speeds), background_(background), log_(log) {}

void FilesSoFar::begin(Ticks now) {
  from_ = record_.seconds(now);
  due_ = from_ + 1.0;
}

void FilesSoFar::write_if_due(Ticks now) {
  const double seconds = record_.seconds(now);
  if (is_writing_ || seconds < due_) return;
  due_ = seconds + std::clamp(seconds - from_, 1.0, 10.0);
  is_writing_ = true;
  std::vector<WorkerTimes> times;
  for (std::uint32_t r = 0; r < speeds_.times().size(); ++r) {
    if (speeds_.times()[r].wall > 0)
      times.push_back({config_.cluster.cluster().worker_at(Rank(r)), speeds_.times()[r]});
  }
  background_.run(record_.writer_so_far(std::move(times)), [this](const Status& written, Ticks) {
    is_writing_ = false;
    if (!written && !has_failed_) log_.warn(written.message() + "; it is tried again");
    has_failed_ = !written;
  });
}

}  // namespace paceline::server
