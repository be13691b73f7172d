add_library(paceline_test_cluster STATIC process/breaking_relay.cc process/grant_checker.cc process/guarantee_checker.cc
  process/local_cluster.cc process/random_schedule.cc process/relay.cc)
paceline_options(paceline_test_cluster)
target_link_libraries(paceline_test_cluster PUBLIC paceline_server paceline_worker paceline_params paceline_report)

paceline_test(guarantees_test CHECK --schedules 288 SOURCES process/guarantees_test.cc $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_test_cluster TIMEOUT 600)

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

# The daemons, the tool and the scripts themselves, as processes: one test for each class of process/daemons/,
# process/chaos/ and process/page/, in the tier `all`; and check.CLASS for what process/check_tier.txt names of it.
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
set(daemons_timeout 600)
set(daemons_environment ${sanitizer_environment})
if(PACELINE_SANITIZE)
  set(daemons_timeout 2400)
  list(APPEND daemons_environment "PACELINE_SANITIZED=1")  # harness.py
endif()
# What a sanitizer would find here it finds elsewhere: none is needed for the scripts, for sweeps and reports (processes
# of one thread), for bad input and for a run that is looked at (http_server_test has its thread); a sanitizer's own
# memory would be measured by what looks at a server's.
set(not_sanitized BadInput CardsOfRuns Colours ComparingScripts Dashboard DtsspExperiment FileSizeLimits Live LivePage
  LongRun Overload
  PageBundle Plots ReportFormats ReportNumbers ReportPage ResumeByScript RunScripts Scripts Slurm SlurmScript Sweeps)
# Nor can Python or another's program, which have no sanitizer, load a library that has one.
list(APPEND not_sanitized Installed JaxLoop Launch Onnx PythonData PythonLoop Safetensors Spark SparkAttempts
  SparkBatches StateDicts
  TorchData TorchLaunch TorchLoop TorchStages TorchvisionPixels Wheel)
# The thread sanitizer sees the daemons' threads in these.
set(thread_sanitized Stops WholeRuns)
set(check_tier ${CMAKE_CURRENT_SOURCE_DIR}/process/check_tier.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${check_tier})
file(STRINGS ${check_tier} in_check REGEX "^[A-Z]")

function(paceline_process_test name file)
  add_test(NAME ${name} COMMAND Python3::Interpreter ${file} ${CMAKE_BINARY_DIR}/bin ${PROJECT_SOURCE_DIR} ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${daemons_timeout} ENVIRONMENT "${daemons_environment}" SKIP_RETURN_CODE 77)
endfunction()

file(GLOB daemon_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/process/daemons/*_test.py
  ${CMAKE_CURRENT_SOURCE_DIR}/process/chaos/*_test.py ${CMAKE_CURRENT_SOURCE_DIR}/process/page/*_test.py)
foreach(file ${daemon_tests})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})  # a new class is a new test
  file(STRINGS ${file} classes REGEX "^class [A-Za-z]+\\(")
  if(NOT classes)
    message(FATAL_ERROR "${file}: no test class")
  endif()
  file(STRINGS ${file} tests REGEX "^    def test_")
  list(TRANSFORM tests REPLACE "^    def (test_[A-Za-z0-9_]+).*" "\\1")
  foreach(class ${classes})
    string(REGEX REPLACE "^class ([A-Za-z]+).*" "\\1" class ${class})
    if(PACELINE_SANITIZE AND class IN_LIST not_sanitized OR
       PACELINE_SANITIZE STREQUAL "thread" AND NOT class IN_LIST thread_sanitized)
      list(FILTER in_check EXCLUDE REGEX "^${class}(\\.|$)")
      continue()
    endif()
    paceline_process_test(daemons.${class} ${file} ${class})
    set(chosen ${in_check})
    list(FILTER chosen INCLUDE REGEX "^${class}(\\.|$)")
    foreach(one ${chosen})
      string(REPLACE "${class}." "" test ${one})
      if(NOT test STREQUAL class AND NOT test IN_LIST tests)
        message(FATAL_ERROR "${check_tier}: ${file} has no such test: ${one}")
      endif()
    endforeach()
    list(FILTER in_check EXCLUDE REGEX "^${class}(\\.|$)")
    if(class IN_LIST chosen)
      set_tests_properties(daemons.${class} PROPERTIES LABELS check)
    elseif(chosen)
      paceline_process_test(check.${class} ${file} ${chosen})
      set_tests_properties(check.${class} PROPERTIES LABELS check)
    endif()
  endforeach()
endforeach()
if(in_check)
  message(FATAL_ERROR "${check_tier}: no such class: ${in_check}")
endif()
add_dependencies(check_tests counting_node mutated_messages)
if(NOT PACELINE_SANITIZE)
  # The longest begin first, or the others would have ended long before them. Beside others, Overload would measure
  # those.
  set_tests_properties(daemons.ReplicaReturns daemons.Resume PROPERTIES COST 300)
  set_tests_properties(daemons.Slurm PROPERTIES COST 300 TIMEOUT 1200)  # Slurm's limits are whole minutes
  set_tests_properties(daemons.Spark PROPERTIES COST 300 TIMEOUT 3600)  # Java, on a machine that may be busy
  # PyTorch, likewise
  set_tests_properties(daemons.TorchLaunch daemons.TorchLoop daemons.TorchStages PROPERTIES TIMEOUT 3600)
  set_tests_properties(daemons.Overload PROPERTIES RUN_SERIAL TRUE)
endif()
