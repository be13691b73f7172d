// What this process may use of its machine: the processors it may run on, and the memory. In a container, or as
// a scheduler's job, that is less than the machine has: control groups (cgroup v1 and v2) limit both, and each
// group the ones within it.
//
//   machine 64 cores, 256 GB > pod cpu.max "400000 100000", no memory limit > container memory.max 8 GB
//   this process: 4 cores, 8 GB
//
// Thread: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace paceline {

// The least of what a process's group and those around it allow; nothing where none of them sets a limit.
struct GroupLimits {
  std::optional<double> cpus = {};  // seconds of processor time a second
  std::optional<double> memory_bytes = {};
};

// `mounted`: where the control groups lie (/sys/fs/cgroup). `own_groups`: the text of /proc/self/cgroup. What is
// named there and not seen at `mounted`, as in a container that sees only its own group, counts as the topmost
// that is seen. Reads nothing else.
GroupLimits group_limits(const std::filesystem::path& mounted, const std::string& own_groups);

// Of this process, as they are now.
GroupLimits own_group_limits();

// The processors that this process may run on, at most as many as its quota is worth, rounded up; at least 1.
std::uint32_t usable_cores();
// The same of a quota, and of so many processors.
std::uint32_t cores_within(std::uint32_t processors, std::optional<double> quota);

// The machine's memory, or the limit of its groups where that is less.
double usable_memory_bytes();

}  // namespace paceline
