// Denials: who was not let in, gathered so that a flood of attempts is a few lines in the log: of each source
// one line when it is first denied, and then one in 10 s with the number of attempts since. What is kept is
// bounded: beyond kSourcesMax sources the others count as one.
//
// Pure: time is passed in. Thread: one at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/instant.h"

namespace paceline::wire {

class Denials {
 public:
  static constexpr std::chrono::seconds kLogEvery{10};
  static constexpr std::size_t kSourcesMax = 256;

  // Somebody was denied: `source` as an address says it, and the latest reason.
  void add(const std::string& source, const std::string& why) {
    ++total_;
    const bool room = sources_.contains(source) || sources_.size() < kSourcesMax;
    Source& its = sources_[room ? source : "further addresses"];
    its.why = why;
    ++its.unreported;
  }

  // What is to be said now, a line for each source.
  std::vector<std::string> due(Ticks now) {
    std::vector<std::string> lines;
    for (auto it = sources_.begin(); it != sources_.end();) {
      Source& its = it->second;
      const bool silent = its.logged_at && now - *its.logged_at < kLogEvery;
      if (!silent && its.unreported == 0) {
        it = sources_.erase(it);
        continue;
      }
      if (!silent) {
        lines.push_back(it->first + ": " + its.why +
                        (its.unreported > 1 ? " (" + std::to_string(its.unreported) + " times)" : ""));
        its.unreported = 0;
        its.logged_at = now;
      }
      ++it;
    }
    return lines;
  }

  std::int64_t total() const { return total_; }

 private:
  struct Source {
    std::string why;
    std::int64_t unreported = 0;
    std::optional<Ticks> logged_at;
  };
  std::map<std::string, Source> sources_;
  std::int64_t total_ = 0;
};

}  // namespace paceline::wire
