# A run while it goes: its status as text and JSON, over HTTP, for Prometheus; who is slow.
find_package(Boost 1.74 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
paceline_test(live_test
  SOURCES unit/straggler_scores_test.cc unit/run_status_test.cc unit/http_answers_test.cc unit/prometheus_text.cc
    unit/status_display_test.cc
  LIBS paceline_live paceline_http paceline_server nlohmann_json::nlohmann_json)
target_compile_definitions(live_test PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
paceline_test(http_server_test SOURCES process/http_server_test.cc
  LIBS paceline_http Boost::headers)
