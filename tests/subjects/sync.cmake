# The pure core and the cache rules.
paceline_test(sync_scenario_test NOT_TSAN
  SOURCES scenario/scenario_test.cc scenario/render.cc
  LIBS paceline_sync)
target_compile_definitions(sync_scenario_test PRIVATE
  PACELINE_SCENARIO_DIR="${CMAKE_CURRENT_SOURCE_DIR}/scenario")

paceline_test(sync_purity_test NOT_TSAN SOURCES unit/purity_test.cc)
target_compile_definitions(sync_purity_test PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# The other half of purity: the two libraries link to nothing at all, and the worker's step to the cache rules alone.
foreach(library paceline_sync paceline_cache)
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(linked ${library} ${property})
    if(linked)
      message(FATAL_ERROR "${library} must link to nothing, but links to: ${linked}")
    endif()
  endforeach()
endforeach()
get_target_property(linked paceline_step INTERFACE_LINK_LIBRARIES)
if(NOT linked STREQUAL "paceline_cache")
  message(FATAL_ERROR "paceline_step must link to paceline_cache alone, but links to: ${linked}")
endif()

# The simulation: the real core and cache rules on a simulated network, with independent checkers.
# Of worker/client what says again what was lost, of server/store what takes each gradient once, and no socket.
set(SIM_SOURCES
  sim/authority_checker.cc sim/authority_checks.cc sim/authority_model.cc sim/authority_resumed.cc sim/end_checks.cc
  sim/generation.cc
  sim/generation_cuts.cc sim/generation_messages.cc sim/generation_saves.cc sim/node_model.cc sim/run_plan.cc
  sim/shard_model.cc sim/world.cc
  ${PROJECT_SOURCE_DIR}/worker/client/gradient_sender.cc ${PROJECT_SOURCE_DIR}/worker/client/unacked_messages.cc
  ${PROJECT_SOURCE_DIR}/worker/client/server_link.cc
  ${PROJECT_SOURCE_DIR}/server/store/gradient.cc ${PROJECT_SOURCE_DIR}/server/store/gradient_store.cc)
set(RESUMED_SOURCES sim/resumed_account.cc sim/resumed_run.cc)
add_library(paceline_test_sim STATIC ${SIM_SOURCES})
paceline_options(paceline_test_sim)
paceline_position_independent(paceline_test_sim)
paceline_precompiled(paceline_test_sim product)
target_link_libraries(paceline_test_sim PUBLIC paceline_sync paceline_step paceline_gradient_encoder paceline_messages)
paceline_test(sync_sim_test NOT_TSAN OPTIMIZED
  SOURCES sim/sim_test.cc $<TARGET_OBJECTS:paceline_seeds_main> LIBS paceline_test_sim)

# The same where each shard has two servers: of server/replicas what one tells the other, and no socket.
set(REPLICA_SIM_SOURCES
  sim/replicas/acknowledged.cc sim/replicas/replica_plan.cc sim/replicas/replica_state.cc sim/replicas/replicated_run.cc
  sim/replicas/replicated_run_nodes.cc sim/replicas/replicated_shard.cc sim/replicas/server_model.cc
  sim/replicas/server_model_peers.cc sim/replicas/server_model_replicas.cc
  ${PROJECT_SOURCE_DIR}/server/replicas/event_log.cc ${PROJECT_SOURCE_DIR}/server/replicas/replica_role.cc)
paceline_test(replica_sim_test NOT_TSAN OPTIMIZED
  SOURCES sim/replicas/breach_test.cc sim/replicas/replica_sim_test.cc ${REPLICA_SIM_SOURCES} $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_test_sim)

# The core saved and resumed, through its bytes.
paceline_test(sync_resume_test NOT_TSAN OPTIMIZED
  SOURCES sim/resume_test.cc sim/run_plan.cc ${RESUMED_SOURCES} unit/checkpoint_state_test.cc unit/engine_state_test.cc
          $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_checkpoint_state paceline_sync)

# A step costs O(1): the core once more, which tells the test of each basic block that it runs through.
get_target_property(SYNC_SOURCES paceline_sync SOURCES)
list(TRANSFORM SYNC_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/common/sync/)
add_library(paceline_sync_counted STATIC EXCLUDE_FROM_ALL ${SYNC_SOURCES})
paceline_options(paceline_sync_counted)
target_compile_options(paceline_sync_counted PRIVATE -fsanitize-coverage=trace-pc)
paceline_test(operations_test PLAIN OPTIMIZED SOURCES unit/operations_test.cc LIBS paceline_sync_counted)

paceline_test(sync_unit_test NOT_TSAN OPTIMIZED
  SOURCES unit/batch_balance_test.cc unit/clock_table_test.cc unit/come_and_go_test.cc unit/dssp_test.cc
    unit/engine_test.cc unit/even_share_test.cc unit/order_test.cc unit/freshness_test.cc unit/lpr_test.cc
          unit/policy_switch_test.cc unit/random_walk_test.cc unit/engine_staleness_test.cc unit/worker_step_test.cc
          scenario/render.cc
  LIBS paceline_sync paceline_step)

# One case per claim of the DTSSP paper.
paceline_test(sync_paper_test NOT_TSAN
  SOURCES paper/dtssp_paper_test.cc
  LIBS paceline_sync paceline_cache)
