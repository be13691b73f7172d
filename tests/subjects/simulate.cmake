# The simulator: its parts, runs worked out by hand, its files, what it refuses.
paceline_test(simulate_test
  SOURCES unit/simulate_parts_test.cc unit/simulate_run_test.cc unit/simulate_files_test.cc
          unit/staleness_test.cc
          sim/authority_checker.cc
  LIBS paceline_simulate paceline_tools paceline_config paceline_report paceline_files paceline_wire
  LABELS core)
