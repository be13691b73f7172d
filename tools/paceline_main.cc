// paceline: the tool beside the daemons. A list of its subcommands; each lives in a file of its own.
#include <CLI/CLI.hpp>
#include <iostream>

#include "common/config/command_line.h"
#include "common/process/begin.h"
#include "tools/check_config.h"
#include "tools/data_synthesize.h"
#include "tools/doctor.h"
#include "tools/evaluate.h"
#include "tools/explain.h"
#include "tools/export.h"
#include "tools/keygen.h"
#include "tools/model.h"
#include "tools/report.h"
#include "tools/schedule.h"
#include "tools/simulate.h"
#include "tools/speedup.h"
#include "tools/sweep.h"
#include "tools/top.h"

int main(int argc, char** argv) {
  paceline::begin_program();
  int exit_status = paceline::kExitOk;
  CLI::App app("Tools for Paceline runs.", "paceline");
  app.require_subcommand(1);

  paceline::add_check_config(app, exit_status);
  paceline::add_data_synthesize(app, exit_status);
  paceline::add_doctor(app, exit_status);
  paceline::add_evaluate(app, exit_status);
  paceline::add_explain(app, exit_status);
  paceline::add_export(app, exit_status);
  paceline::add_keygen(app, exit_status);
  paceline::add_model(app, exit_status);
  paceline::add_report(app, exit_status);
  paceline::add_schedule(app, exit_status);
  paceline::add_simulate(app, exit_status);
  paceline::add_speedup(app, exit_status);
  paceline::add_sweep(app, exit_status);
  paceline::add_trace(app, exit_status);
  paceline::add_top(app, exit_status);

  if (const auto status = paceline::parse_command_line(app, argc, argv, std::cout, std::cerr)) return *status;
  return exit_status;
}
