// RunningThreads: how many threads of the machine have a processor or wait for one, this one included: what says
// whether who waits for another may look again and again, or takes from those who compute.
//
//   /proc/loadavg: 0.20 0.18 0.12 3/80 11206     3 of 80 threads; on two processors one of them waits
//
// A look takes some 2 us. In a container it counts the machine's threads all the same. Where it says 0 nobody has
// counted (gVisor's 0/0), since this thread runs.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "common/files/descriptor.h"

namespace paceline {

class RunningThreads {
 public:
  // `processors`: of those the threads share, usable_cores() (machine.h) as a rule.
  explicit RunningThreads(std::uint32_t processors, const std::filesystem::path& file = "/proc/loadavg");

  // nullopt: the system does not say.
  std::optional<std::uint32_t> count() const;
  // No thread waits for a processor. False where the system does not say.
  bool all_have_a_processor() const { return count().value_or(processors_ + 1) <= processors_; }

 private:
  std::uint32_t processors_;
  Descriptor file_;
};

}  // namespace paceline
