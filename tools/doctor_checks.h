// The checks of `paceline doctor`, by what they look at. Each appends what it has found; nothing that it made
// stays, but of measure_exchange(). `config` is valid.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "tools/doctor.h"

namespace paceline {

using Findings = std::vector<Finding>;

// doctor_endpoints.cc: whether the servers of `role` can bind their endpoints, and who listens there if not;
// whether the endpoints that its nodes (and the other servers) connect to can be resolved and reached, and
// how fast. Where `role` is the whole run, binding says all.
void check_endpoints(const RunConfig& config, const DoctorRole& role, Findings& findings);

// An endpoint of another server that does not lie on this machine; empty: there is none.
std::string endpoint_elsewhere(const RunConfig& config, const DoctorRole& role);

// doctor_files.cc: the data set, read as every node reads it.
void check_data_set(const RunConfig& config, const DoctorRole& role, Findings& findings);
// The run's keys, read as its daemons read them.
void check_keys(const RunConfig& config, const DoctorRole& role, Findings& findings);
// The run directory: that it can be written, holds no other run (unless `force`), lies on a file system with
// room, whose clock agrees with this machine's.
void check_run_directory(const RunConfig& config, const DoctorRole& role, Force force, Findings& findings);

// doctor_clocks.cc: this machine's clock against the authority's, where another machine's that answers HTTP
// (run.http), else against the network file system's with `folder` in it, whose clock is `skew_of_files`
// before ours. What can be compared with none, though a server lies elsewhere, is a warning.
Finding compare_clocks(const RunConfig& config, const DoctorRole& role, const std::string& folder,
                       std::chrono::nanoseconds skew_of_files);

// doctor_machine.cc: descriptors, memory, cores, shared memory, huge pages.
void check_open_files(const RunConfig& config, const DoctorRole& role, Findings& findings);
void check_memory(const RunConfig& config, const DoctorRole& role, Findings& findings);
void check_cores(const RunConfig& config, const DoctorRole& role, Findings& findings);
void check_shared_memory(const RunConfig& config, Findings& findings);
void check_huge_pages(const RunConfig& config, Findings& findings);
// What the libraries are, and what the processor can do.
void check_libraries(Findings& findings);
void check_processor(Findings& findings);

// doctor_exchange.cc: what an exchange of the whole model costs, in times of a mini-batch, by a run of `rounds` rounds,
// or of a minute if that is less, of which this machine does its part: those of other machines measure at the same
// time. The run and what its daemons said stay in `run.out`.exchange, which is replaced.
struct ExchangeTrial {
  std::int64_t rounds = 1;
  std::filesystem::path programs;  // the folder of paceline-server and paceline-worker
};
void measure_exchange(const RunConfig& config, const DoctorRole& role, const ExchangeTrial& trial,
                      Findings& findings);

}  // namespace paceline
