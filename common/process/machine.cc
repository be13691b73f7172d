#include "common/process/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

namespace paceline {
namespace {

namespace fs = std::filesystem;

void lower(std::optional<double>& limit, std::optional<double> other) {
  if (other && *other > 0.0) limit = std::min(limit.value_or(*other), *other);
}

// The number at the beginning of a file; "max", v2's word for no limit, is none.
std::optional<double> number_in(const fs::path& file) {
  std::ifstream text(file);
  double number = 0.0;
  return text >> number ? std::optional(number) : std::nullopt;
}

// v2, in cpu.max: "150000 100000", microseconds of each period.
std::optional<double> share_in(const fs::path& file) {
  std::ifstream text(file);
  double quota = 0.0;
  double period = 0.0;
  return text >> quota >> period && period > 0.0 ? std::optional(quota / period) : std::nullopt;
}

// v1: a quota of -1 is none.
std::optional<double> share_of_v1(const fs::path& folder) {
  const auto quota = number_in(folder / "cpu.cfs_quota_us");
  const auto period = number_in(folder / "cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0.0 || *period <= 0.0) return std::nullopt;
  return *quota / *period;
}

// v1 says a limit near 2^63 where there is none.
std::optional<double> memory_of_v1(const fs::path& folder) {
  const auto bytes = number_in(folder / "memory.limit_in_bytes");
  return bytes && *bytes < 0x1p62 ? bytes : std::nullopt;
}

// The group's folder and those of the groups around it, up to `top`.
void for_each_around(const fs::path& top, const std::string& group,
                     const std::function<void(const fs::path&)>& visit) {
  fs::path inner = fs::path(group).relative_path();
  // "/../other": outside of what this process sees.
  if (std::find(inner.begin(), inner.end(), "..") != inner.end()) inner.clear();
  for (; !inner.empty(); inner = inner.parent_path()) visit(top / inner);
  visit(top);
}

bool names(const std::string& controllers, const std::string& wanted) {
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

}  // namespace

// A line is "number:controllers:group", and "0::group" in v2. In v1 each list of controllers is mounted in a
// folder of that name, or of one controller's.
GroupLimits group_limits(const fs::path& mounted, const std::string& own_groups) {
  GroupLimits limits;
  std::istringstream lines(own_groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for_each_around(mounted, group, [&](const fs::path& folder) {
        lower(limits.cpus, share_in(folder / "cpu.max"));
        lower(limits.memory_bytes, number_in(folder / "memory.max"));
      });
    }
    for (const std::string& folder : {controllers, std::string("cpu")}) {
      if (!names(controllers, "cpu")) break;
      for_each_around(mounted / folder, group,
                      [&](const fs::path& at) { lower(limits.cpus, share_of_v1(at)); });
    }
    if (names(controllers, "memory")) {
      for_each_around(mounted / controllers, group,
                      [&](const fs::path& at) { lower(limits.memory_bytes, memory_of_v1(at)); });
    }
  }
  return limits;
}

GroupLimits own_group_limits() {
  std::ifstream file("/proc/self/cgroup");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return group_limits("/sys/fs/cgroup", text);
}

std::uint32_t cores_within(std::uint32_t processors, std::optional<double> quota) {
  const double most = std::max(1.0, static_cast<double>(processors));
  return static_cast<std::uint32_t>(std::clamp(std::ceil(quota.value_or(most)), 1.0, most));
}

std::uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // It fails where there are more processors than the set has places for.
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const auto processors = static_cast<std::uint32_t>(known ? CPU_COUNT(&set) : std::max(1L, online));
  return cores_within(processors, own_group_limits().cpus);
}

double usable_memory_bytes() {
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return std::min(physical, own_group_limits().memory_bytes.value_or(physical));
}

}  // namespace paceline
