// The command line, the order of the checks, and how their findings are printed.
#include "tools/doctor.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/config/command_line.h"
#include "common/config/daemon_options.h"
#include "common/config/load.h"
#include "tools/doctor_checks.h"
#include "tools/sweep.h"

namespace paceline {
namespace {

const char* word_of(CheckVerdict verdict) {
  switch (verdict) {
    case CheckVerdict::kOk:
      return "ok";
    case CheckVerdict::kWarning:
      return "warning";
    case CheckVerdict::kFailed:
      return "FAILED";
  }
  return "?";
}

bool has_failed(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.verdict == CheckVerdict::kFailed; });
}

DoctorRole role_of(const RunConfig& config, const DoctorOptions& options) {
  DoctorRole role;
  for (std::uint32_t i = 0; i < config.cluster.nodes; ++i) {
    if (!options.shard && options.node.value_or(i) == i) role.nodes.emplace_back(i);
  }
  for (std::uint32_t k = 0; k < config.cluster.shards; ++k) {
    if (!options.node && options.shard.value_or(k) == k) role.shards.emplace_back(k);
  }
  for (std::uint32_t r = 0; r < config.cluster.replicas; ++r) {
    if (!options.node && (!options.shard || options.replica == r)) role.replicas.push_back(r);
  }
  return role;
}

// It loads, or nothing is looked at; so this says what it comes to.
Finding configuration(const RunConfig& config, const DoctorOptions& options) {
  char mark[32];
  std::snprintf(mark, sizeof mark, "0x%016" PRIx64, fingerprint(config));
  return {"configuration", CheckVerdict::kOk,
          options.config_path + ": " + value_of(config, "sync.policy").value() + ", " +
              std::to_string(config.cluster.shards) + " server(s), " + std::to_string(config.cluster.nodes) +
              " node(s) with " + std::to_string(config.cluster.threads_per_node) +
              " worker(s) each; fingerprint " + mark + ", which all daemons must have",
          ""};
}

void print_lines(const std::vector<Finding>& findings, std::ostream& out) {
  for (const Finding& f : findings) {
    char head[48];
    std::snprintf(head, sizeof head, "%-8s %-14s ", word_of(f.verdict), f.check.c_str());
    out << head << f.detail << (f.advice.empty() ? "" : "; " + f.advice) << "\n";
  }
}

void print_json(const DoctorOptions& options, const std::vector<Finding>& findings, std::ostream& out) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  for (const Finding& f : findings) {
    checks.push_back(
        {{"check", f.check}, {"verdict", word_of(f.verdict)}, {"detail", f.detail}, {"advice", f.advice}});
  }
  const nlohmann::ordered_json whole = {
      {"config", options.config_path}, {"ok", !has_failed(findings)}, {"checks", std::move(checks)}};
  // Paths and host names may be anything.
  out << whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace

Result<std::vector<Finding>> diagnose(const DoctorOptions& options) {
  const DaemonRole daemon = options.node ? DaemonRole::kWorker : DaemonRole::kServer;
  const std::uint32_t index = options.node.value_or(options.shard.value_or(0));
  PACELINE_ASSIGN_OR_RETURN(const RunConfig config,
                            load_daemon_config(daemon, {.config_path = options.config_path,
                                                        .overrides = options.overrides,
                                                        .index = index,
                                                        .force = options.force,
                                                        .replica = options.replica}));
  const DoctorRole role = role_of(config, options);
  std::vector<Finding> findings = {configuration(config, options)};
  check_endpoints(config, role, findings);
  check_keys(config, role, findings);
  check_data_set(config, role, findings);
  check_run_directory(config, role, options.force, findings);
  check_open_files(config, role, findings);
  check_memory(config, role, findings);
  check_cores(config, role, findings);
  check_shared_memory(config, findings);
  check_huge_pages(config, findings);
  check_libraries(findings);
  check_processor(findings);
  if (!options.exchange_rounds) return findings;
  if (has_failed(findings)) {
    findings.push_back({"exchange", CheckVerdict::kWarning, "not measured, since something has failed", ""});
  } else {
    measure_exchange(config, role, {*options.exchange_rounds, options.programs}, findings);
  }
  return findings;
}

int doctor(const DoctorOptions& options, std::ostream& out, std::ostream& err) {
  if (options.exchange_rounds && (options.node || options.shard)) {
    err << "paceline doctor: --exchange: waits up to cluster.start_timeout for the doctors of the other "
           "machines\n";
  }
  const auto findings = diagnose(options);
  if (!findings.is_ok()) {
    err << "paceline doctor: " << findings.status().message() << "\n";
    return kExitUsage;
  }
  if (options.json) {
    print_json(options, *findings, out);
  } else {
    print_lines(*findings, out);
  }
  return has_failed(*findings) ? kExitFailedRun : kExitOk;
}

void add_doctor(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("doctor", "Check whether this machine can do its part of a run");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("CONFIG", options->config_path, "The run's YAML file")->required();
  command->add_option("SETTING", options->overrides, "key.path=value: overrides, as the daemons take them");
  CLI::Option* node = command->add_option("--node", options->node, "This machine is to be this node");
  CLI::Option* shard = command->add_option("--shard", options->shard, "This machine is to be this server");
  node->excludes(shard);
  command->add_option("--replica", options->replica, "Which replica of the server, from 0 (default 0)")
      ->needs(shard);
  add_force(*command, options->force,
            "The daemons will be started with --force; or, given twice, with it twice");
  command->add_flag("--json", options->json, "Print one JSON object");
  command
      ->add_option(
          "--exchange", options->exchange_rounds,
          "Measure what an exchange costs by so many rounds; the doctors of all machines do so at once")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1'000'000}));
  command->callback([options, &exit_status] {
    options->programs = std::filesystem::path(own_program()).parent_path();
    exit_status = doctor(*options, std::cout, std::cerr);
  });
}

}  // namespace paceline
