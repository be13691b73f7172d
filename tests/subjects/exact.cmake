# What the system must show as a whole, over real sockets: exactness, crashes, broken rules, bytes, memory.
paceline_test(exactness_test SOURCES process/exactness_test.cc
  LIBS paceline_test_cluster paceline_network_task paceline_data TIMEOUT 300)

paceline_test(replay_test SOURCES process/replay_test.cc process/rounds_resume_test.cc LIBS paceline_test_cluster)

paceline_test(crash_guarantees_test CHECK --schedules 40 SOURCES process/crash_guarantees_test.cc $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_test_cluster TIMEOUT 600)
target_compile_definitions(crash_guarantees_test PRIVATE PACELINE_COUNTING_NODE="$<TARGET_FILE:counting_node>")
add_dependencies(crash_guarantees_test counting_node)
paceline_test(join_guarantees_test SOURCES process/join_guarantees_test.cc $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_test_cluster TIMEOUT 300)
target_compile_definitions(join_guarantees_test PRIVATE PACELINE_COUNTING_NODE="$<TARGET_FILE:counting_node>")
add_dependencies(join_guarantees_test counting_node)

paceline_test(early_push_test SOURCES process/early_push_test.cc LIBS paceline_test_cluster)
paceline_test(round_trip_test SOURCES process/one_message_test.cc process/round_trip_test.cc
  LIBS paceline_test_cluster paceline_config)
paceline_test(evaluation_test SOURCES process/evaluation_test.cc process/exact_evaluations.cc
  LIBS paceline_test_cluster)

# Numbers of the programs as they are: a sanitizer's own memory and time would be measured instead.
paceline_test(memory_test ALL PLAIN SOURCES process/memory_test.cc LIBS paceline_test_cluster TIMEOUT 600)
paceline_test(worker_memory_test PLAIN SOURCES process/worker_memory_test.cc LIBS paceline_test_cluster)
if(NOT PACELINE_SANITIZE)
  find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
  add_test(NAME bytes_test COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/process/bytes_test.py
    ${CMAKE_BINARY_DIR}/bin)
  set_tests_properties(bytes_test PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# A run without servers, beside one with them.
paceline_test(local_run_test SOURCES unit/inner_states_test.cc unit/local_coordinator.cc unit/local_exchange.cc
  unit/local_run_test.cc unit/local_steps_test.cc process/allreduce_faults_test.cc process/allreduce_test.cc
  process/pipeline_test.cc unit/optimizer_plain.cc
  LIBS paceline_train paceline_exchange paceline_test_cluster paceline_network_task paceline_data paceline_config
    paceline_simulate)
