add_library(paceline_test_cluster STATIC process/breaking_relay.cc process/grant_checker.cc process/guarantee_checker.cc
  process/local_cluster.cc process/random_schedule.cc process/relay.cc)
paceline_options(paceline_test_cluster)
target_link_libraries(paceline_test_cluster PUBLIC paceline_server paceline_worker paceline_params paceline_report)

paceline_test(guarantees_test SOURCES process/guarantees_test.cc $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_test_cluster TIMEOUT 600)

# The same with servers on a GPU that is none.
if(PACELINE_CUDA_HEADERS_FOUND)
  paceline_test(guarantees_gpu_test SOURCES process/guarantees_gpu_test.cc
    LIBS paceline_test_cluster paceline_server_cuda paceline_fake_cuda TIMEOUT 600)
endif()

# A node as a process of its own, which a test kills.
add_executable(counting_node process/counting_node.cc)
paceline_options(counting_node)
target_link_libraries(counting_node PRIVATE paceline_worker)
set_target_properties(counting_node PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
paceline_test(backup_test SOURCES process/backup_test.cc LIBS paceline_test_cluster TIMEOUT 600)
target_compile_definitions(backup_test PRIVATE PACELINE_COUNTING_NODE="$<TARGET_FILE:counting_node>")
add_dependencies(backup_test counting_node)

# Who throws mutated messages at a server (process/daemons/mutated_messages_test.py).
add_executable(mutated_messages process/mutated_messages.cc)
paceline_options(mutated_messages)
target_link_libraries(mutated_messages PRIVATE paceline_wire Boost::headers)
set_target_properties(mutated_messages PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)

paceline_test(balance_test SOURCES process/balance_test.cc
  LIBS paceline_test_cluster paceline_network_task paceline_data)
# Emulated speeds are no speeds where the processor is another's.
set_tests_properties(balance_test PROPERTIES RUN_SERIAL TRUE)

# The daemons, the tool and the scripts themselves, as processes: one test for each class of process/daemons/, process/chaos/
# and, with a browser, process/page/.
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
set(daemons_timeout 600)
set(daemons_environment ${sanitizer_environment})
if(PACELINE_SANITIZE)
  set(daemons_timeout 2400)
  list(APPEND daemons_environment "PACELINE_SANITIZED=1")  # harness.py
endif()
file(GLOB daemon_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/process/daemons/*_test.py
  ${CMAKE_CURRENT_SOURCE_DIR}/process/chaos/*_test.py ${CMAKE_CURRENT_SOURCE_DIR}/process/page/*_test.py)
foreach(file ${daemon_tests})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})  # a new class is a new test
  file(STRINGS ${file} classes REGEX "^class [A-Za-z]+\\(")
  if(NOT classes)
    message(FATAL_ERROR "${file}: no test class")
  endif()
  foreach(class ${classes})
    string(REGEX REPLACE "^class ([A-Za-z]+).*" "\\1" class ${class})
    add_test(NAME daemons.${class}
      COMMAND Python3::Interpreter ${file} ${CMAKE_BINARY_DIR}/bin ${PROJECT_SOURCE_DIR} ${class})
    set_tests_properties(daemons.${class} PROPERTIES
      TIMEOUT ${daemons_timeout} LABELS daemons ENVIRONMENT "${daemons_environment}")
  endforeach()
endforeach()
# What each sanitizer would find here it finds elsewhere (scripts/test.sh leaves these out): none is needed for the
# scripts, for sweeps and reports (processes of one thread), for bad input and for a run that is looked at (http_server_test
# has its thread); the thread sanitizer sees the daemons' threads in
# whole runs and in stops; a sanitizer's own memory would be measured by what looks at a server's.
set_tests_properties(daemons.BadInput daemons.CardsOfRuns daemons.Colours daemons.Dashboard daemons.DtsspExperiment daemons.Live daemons.LivePage daemons.LongRun daemons.Overload daemons.PageBundle daemons.Plots daemons.ReportFormats daemons.ReportPage daemons.ResumeByScript
  daemons.RunScripts daemons.Scripts daemons.Sweeps
  PROPERTIES LABELS "daemons;plain")
set_tests_properties(daemons.BrokenConnections daemons.BspKills daemons.Chaos daemons.Checkpoints daemons.Crashes daemons.Emulation daemons.FileSizeLimits daemons.FullDisk daemons.Garbage daemons.Joins daemons.MutatedMessages daemons.NetworkCuts daemons.NotFinite daemons.Reconnect daemons.ReplicaCuts daemons.ReplicaKills daemons.ReplicaReturns daemons.Replicas daemons.Resume daemons.Starts daemons.TensorBoard
  PROPERTIES LABELS "daemons;not_tsan")
# The longest begin first, or the others would have ended long before them.
set_tests_properties(daemons.ReplicaReturns daemons.Resume PROPERTIES COST 300)
# Beside others it would measure those.
set_tests_properties(daemons.Overload PROPERTIES RUN_SERIAL TRUE)
