# Sweeps: grids, what is finished, tables. Whole sweeps as processes: process/daemons/sweep_test.py.
paceline_test(sweep_test NOT_TSAN
  SOURCES unit/speedup_test.cc unit/sweep_grid_test.cc unit/sweep_table_test.cc
  LIBS paceline_sweep paceline_simulate paceline_data paceline_config paceline_report paceline_files)
target_compile_definitions(sweep_test PRIVATE PACELINE_CONFIGS_DIR="${PROJECT_SOURCE_DIR}/configs")
