# Phases: recorder, split of an exchange, histograms, sums; the files a run leaves behind, what may be
# said of several; and `paceline report`, as text and as a page.
paceline_test(timing_test NOT_TSAN
  SOURCES unit/histogram_test.cc unit/phase_totals_test.cc unit/recorder_test.cc
  LIBS paceline_timing)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
paceline_test(report_test NOT_TSAN
  SOURCES unit/batch_sizes_test.cc unit/progress_test.cc unit/hostile_run_test.cc unit/number_option_test.cc
    unit/older_run_test.cc
          unit/run_files_test.cc unit/report_formats_test.cc unit/report_pipeline_test.cc
          unit/report_failed_runs_test.cc unit/report_tool_test.cc unit/schedule_tool_test.cc
  LIBS paceline_report paceline_files paceline_tools CLI11::CLI11 nlohmann_json::nlohmann_json)
paceline_test(report_page_test NOT_TSAN
  SOURCES unit/page_trace_test.cc unit/report_page_test.cc unit/speedup_page_test.cc
  LIBS paceline_report paceline_files paceline_trace paceline_tools nlohmann_json::nlohmann_json)
paceline_test(compare_test NOT_TSAN
  SOURCES unit/compare_tables_test.cc unit/compare_tool_test.cc
  LIBS paceline_report paceline_files paceline_tools paceline_config nlohmann_json::nlohmann_json)
paceline_test(statistics_test NOT_TSAN SOURCES unit/statistics_test.cc LIBS paceline_statistics rapidcheck)
paceline_test(trace_test NOT_TSAN SOURCES unit/trace_recording_test.cc unit/trace_test.cc LIBS paceline_trace
  paceline_files)
paceline_test(explain_test NOT_TSAN SOURCES unit/explain_test.cc unit/explain_tool_test.cc unit/sum_waits_test.cc LIBS
  paceline_explain nlohmann_json::nlohmann_json)
