// What this machine has: descriptors, memory, cores, shared memory, huge pages; and what it runs.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "common/params/kernels.h"
#include "common/params/shard_ranges.h"
#include "common/printed.h"
#include "common/process/descriptors.h"
#include "common/process/machine.h"
#include "common/wire/shared_memory.h"
#include "common/wire/versions.h"
#include "server/peers/connections_max.h"
#include "server/store/memory_bound.h"
#include "server/store/shard_settings.h"
#include "tools/doctor_checks.h"
#include "worker/descriptors_needed.h"
#include "worker/mesh/seal.h"
#include "worker/model/onednn.h"
#include "worker/network_task.h"
#include "worker/node_memory.h"

namespace paceline {
namespace {

// "123 MB", "1.2 GB"
std::string readable_bytes(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, bytes < 1e9 ? "%.0f MB" : "%.1f GB",
                bytes < 1e9 ? std::ceil(bytes / 1e6) : bytes / 1e9);
  return text;
}

// "MemAvailable:   123456 kB", in bytes.
std::optional<double> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kilobytes = 0;
  for (std::string unit; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return std::nullopt;
}

std::string described(const DoctorRole& role) {
  if (role.shards.empty()) return "node " + to_string(role.nodes.front());
  if (role.nodes.empty()) return "server " + to_string(role.shards.front());
  return "the whole run on this machine";
}

// Whether the kernel looks which pages are used (DAMON): it has a thread for that. Its settings are root's
// alone to read.
bool samples_pages() {
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc", failed), end; !failed && at != end;
       at.increment(failed)) {
    std::ifstream file(at->path() / "comm");
    std::string name;
    if (std::getline(file, name) && name.rfind("kdamond", 0) == 0) return true;
  }
  return false;
}

}  // namespace

// A limit is a process's: of the daemons of `role`, the one that needs most counts.
void check_open_files(const RunConfig& config, const DoctorRole& role, Findings& findings) {
  const ClusterSection& cluster = config.cluster;
  std::uint64_t needed = descriptors_needed_by_node(config);
  std::uint64_t wanted = needed;
  for (const ShardId shard : role.shards) {
    needed = std::max(needed, server::descriptors_needed(cluster, shard));
    wanted = std::max(wanted, server::descriptors_wanted(cluster));
  }
  const std::uint64_t limit = descriptor_limit();
  const std::string detail =
      "a process may open " + (limit == kUnlimited ? "any number of" : std::to_string(limit)) +
      " files, at least " + std::to_string(needed) + " are needed" +
      (wanted > needed ? " and " + std::to_string(wanted) + " if nodes share memory and come back" : "");
  const CheckVerdict verdict = limit < needed   ? CheckVerdict::kFailed
                               : limit < wanted ? CheckVerdict::kWarning
                                                : CheckVerdict::kOk;
  const bool enough = verdict == CheckVerdict::kOk;
  findings.push_back({"open files", verdict, detail, enough ? "" : "ulimit -Hn " + std::to_string(wanted)});
}

void check_memory(const RunConfig& config, const DoctorRole& role, Findings& findings) {
  const auto layout = network_layout(config);
  if (!layout.is_ok() || config.data.path.empty()) {
    return findings.push_back(
        {"memory", CheckVerdict::kOk, "not looked at: the model is that of a task of your own", ""});
  }
  const std::vector<Range> ranges = shard_ranges(*layout, config.train.optimizer, config.cluster.shards);
  double least = 0;
  double most = 0;
  for (const ShardId shard : role.shards) {
    const server::MemoryBound bound = server::memory_bound(ranges[shard.value].size(), config);
    least += bound.least;
    most += bound.most;
  }
  const double nodes =
      static_cast<double>(usual_bytes(config, layout->size())) * static_cast<double>(role.nodes.size());
  least += nodes;
  most += nodes;
  const double usable = usable_memory_bytes();
  const double available = std::min(available_memory().value_or(usable), usable);
  const bool limited = usable == own_group_limits().memory_bytes;
  const std::string detail = std::to_string(layout->size()) + " parameters: " + described(role) +
                             " needs at least " + readable_bytes(least) +
                             " for parameters and gradients, at most " + readable_bytes(most) + "; " +
                             readable_bytes(available) + " of " + readable_bytes(usable) + " are available" +
                             (limited ? " (the limit of a control group)" : "");
  if (least > usable) {
    return findings.push_back(
        {"memory", CheckVerdict::kFailed, detail, "take a smaller model, or more shards on more machines"});
  }
  if (most > available) {
    return findings.push_back(
        {"memory", CheckVerdict::kWarning, detail,
         "end other programs, or take more shards, fewer workers or a smaller threshold"});
  }
  findings.push_back({"memory", CheckVerdict::kOk, detail, ""});
}

// Emulated nodes sleep most of their time: there the slots compute.
void check_cores(const RunConfig& config, const DoctorRole& role, Findings& findings) {
  const std::uint32_t cores = usable_cores();
  const std::optional<double> quota = own_group_limits().cpus;
  const std::uint32_t threads =
      config.cluster.threads_per_node * static_cast<std::uint32_t>(role.nodes.size());
  const bool emulates = config.emulate.base_step && !role.nodes.empty();
  const std::uint32_t compute = emulates ? std::min(threads, config.emulate.cores) : threads;
  std::string detail = std::to_string(cores) + " for this process" +
                       (quota ? printed(" (a control group's quota is %.2f)", *quota) : "") + "; " +
                       std::to_string(compute) +
                       (emulates ? " slots of emulate.cores compute" : " training threads compute");
  if (!role.shards.empty()) {
    detail += ", a server applies with up to " + std::to_string(server::shard_settings(config).apply_threads);
  }
  if (compute <= cores) return findings.push_back({"cores", CheckVerdict::kOk, detail, ""});
  findings.push_back({"cores", CheckVerdict::kWarning, detail,
                      emulates ? "set emulate.cores to what there is, or emulated times are not kept"
                               : "take fewer threads_per_node, or threads take turns"});
}

void check_shared_memory(const RunConfig& config, Findings& findings) {
  const SharedMemory wanted = config.cluster.shared_memory;
  if (wanted == SharedMemory::kOff) {
    return findings.push_back({"shared memory", CheckVerdict::kOk, "cluster.shared_memory is off", ""});
  }
  constexpr std::int64_t kTried = 1 << 20;
  const auto segment = wire::SharedSegment::create(kTried);
  if (segment.is_ok()) {
    return findings.push_back({"shared memory", CheckVerdict::kOk,
                               "can be had; whether a node and a server share it shows when they join", ""});
  }
  const bool required = wanted == SharedMemory::kOn;
  findings.push_back(
      {"shared memory", required ? CheckVerdict::kFailed : CheckVerdict::kWarning, segment.status().message(),
       required ? "cluster.shared_memory=auto does without" : "payloads will be sent instead"});
}

// "always [madvise] never": the daemons ask (common/wire/memory.h).
void check_huge_pages(const RunConfig& config, Findings& findings) {
  if (!config.cluster.huge_pages) {
    findings.push_back({"huge pages", CheckVerdict::kOk, "none, as cluster.huge_pages says", ""});
    return;
  }
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string state;
  std::getline(file, state);
  const bool refused = state.empty() || state.find("[never]") != std::string::npos;
  std::string detail = state.empty() ? "this system offers none"
                       : refused
                           ? "the system gives none (" + state + "); passes over large models are slower"
                           : "the system gives them to those who ask (" + state + ")";
  if (!refused && samples_pages()) {
    detail +=
        ", and samples which are used: in a guest with shadow page tables cluster.huge_pages=false is faster";
  }
  findings.push_back({"huge pages", CheckVerdict::kOk, std::move(detail), ""});
}

void check_libraries(Findings& findings) {
  std::vector<LibraryVersion> libraries = wire::library_versions();
  libraries.push_back(onednn_version());
  libraries.push_back(mesh::sodium_version());
  for (const LibraryVersion& library : libraries) {
    const auto release = [](const std::string& version) { return version.substr(0, version.find('.')); };
    // A library's file name is no version to compare.
    const bool comparable = library.running.find_first_not_of("0123456789.") == std::string::npos;
    const bool differ = comparable && release(library.built) != release(library.running);
    findings.push_back(
        {"library", differ ? CheckVerdict::kWarning : CheckVerdict::kOk,
         library.name + ": built with " + library.built + ", running " + library.running,
         differ ? "build on this machine, or install the version that it was built with" : ""});
  }
}

void check_processor(Findings& findings) {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "an unnamed processor";
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    model = line.substr(colon + 2);
    break;
  }
  findings.push_back({"processor", CheckVerdict::kOk,
                      model + "; parameters are updated with " + kernels::best().name +
                          ", networks computed with " + onednn_instruction_set(),
                      ""});
}

}  // namespace paceline
