# What the system must show as a whole, over real sockets: exactness, crashes, broken rules, bytes, memory.
paceline_test(exactness_test SOURCES process/exactness_test.cc
  LIBS paceline_test_cluster paceline_network_task paceline_data LABELS sanitizer TIMEOUT 300)

add_executable(counting_node process/counting_node.cc)
paceline_options(counting_node)
target_link_libraries(counting_node PRIVATE paceline_worker)
set_target_properties(counting_node PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
paceline_test(half_push_test SOURCES process/half_push_test.cc
  LIBS paceline_test_cluster paceline_config LABELS sanitizer)
paceline_test(crash_guarantees_test SOURCES process/crash_guarantees_test.cc
  LIBS paceline_test_cluster LABELS sanitizer TIMEOUT 300)
target_compile_definitions(crash_guarantees_test PRIVATE PACELINE_COUNTING_NODE="$<TARGET_FILE:counting_node>")
add_dependencies(crash_guarantees_test counting_node)
