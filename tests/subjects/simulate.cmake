# The simulator: its parts, runs worked out by hand, its files, what it refuses.
paceline_test(simulate_test NOT_TSAN
  SOURCES unit/simulate_parts_test.cc unit/simulate_checked_test.cc unit/simulate_pipeline_test.cc
    unit/simulate_run_test.cc unit/simulate_links_test.cc
          unit/simulate_files_test.cc unit/simulate_trace_test.cc unit/staleness_test.cc
          sim/authority_checker.cc sim/authority_checks.cc
  LIBS paceline_simulate paceline_tools paceline_config paceline_report paceline_files paceline_wire)
# Training mode, beside real runs over sockets, whose threads are exactness_test's.
set(training_libs paceline_simulate paceline_tools paceline_test_cluster paceline_network_task paceline_data
  paceline_config
  paceline_report paceline_files paceline_encode)
paceline_test(simulate_training_test NOT_TSAN
  SOURCES unit/simulate_training_test.cc unit/simulate_training_files_test.cc unit/optimizer_plain.cc
  LIBS ${training_libs} TIMEOUT 300)
paceline_test(simulate_members_test NOT_TSAN
  SOURCES unit/simulate_balance_test.cc unit/simulate_joins_test.cc unit/simulate_norm_group_test.cc
    unit/simulate_policies_test.cc
          unit/optimizer_plain.cc
  LIBS ${training_libs} TIMEOUT 300)
target_compile_definitions(simulate_members_test PRIVATE PACELINE_CONFIGS_DIR="${PROJECT_SOURCE_DIR}/configs")
