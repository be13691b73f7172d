# The server: the store, membership, the authority, and a server over real sockets.
paceline_test(store_test SOURCES unit/apply_pool_test.cc unit/machine_test.cc unit/store_encoded_test.cc
  unit/store_test.cc LIBS paceline_store paceline_process)
paceline_test(speculative_apply_test OPTIMIZED SOURCES unit/speculative_apply_test.cc unit/turn_eager_test.cc
  unit/speculative_apply.cc unit/optimizer_plain.cc
  LIBS paceline_store)
paceline_test(compensation_test OPTIMIZED SOURCES unit/compensation_test.cc LIBS paceline_store)
paceline_test(shard_service_test NOT_TSAN
  SOURCES unit/membership_test.cc unit/shard_reconnect_test.cc unit/shard_saves_test.cc unit/shard_service_test.cc
    unit/reliable_channel_test.cc unit/shard_waits_test.cc unit/unreachable_test.cc
  LIBS paceline_authority paceline_config)
paceline_test(slow_readers_test NOT_TSAN OPTIMIZED SOURCES unit/slow_readers_test.cc unit/slow_readers.cc LIBS
  paceline_authority)
find_package(Boost 1.74 REQUIRED CONFIG)
find_package(Threads REQUIRED)
paceline_test(authority_test
  SOURCES unit/authority_test.cc unit/authority_again_test.cc unit/authority_allreduce_test.cc
    unit/authority_checkpoints_test.cc unit/authority_late_joins_test.cc unit/authority_end_test.cc
    unit/authority_evaluations_test.cc unit/authority_stop_test.cc unit/authority_follows_test.cc
    unit/authority_formations_test.cc unit/authority_reconfigure_test.cc unit/authority_resume_test.cc
          unit/authority_status_test.cc unit/authority_trace_test.cc unit/authority_waits_test.cc
          unit/background_test.cc unit/prometheus_text.cc unit/run_record_events_test.cc
          unit/line_writer_test.cc unit/stall_log_test.cc
  LIBS paceline_authority paceline_http paceline_checkpoint_state paceline_config Boost::headers Threads::Threads)
paceline_test(resume_choice_test NOT_TSAN SOURCES unit/resume_choice_test.cc unit/ended_programs_test.cc
  LIBS paceline_server paceline_checkpoint_state paceline_config Boost::headers)
paceline_test(server_socket_test
  SOURCES process/server_reconnect_test.cc process/server_resume_test.cc process/server_shard_test.cc
    process/server_socket_test.cc process/work_ahead_test.cc
  LIBS paceline_server paceline_config Boost::headers)
paceline_test(overload_test SOURCES process/overload_test.cc LIBS paceline_server paceline_config Boost::headers)
paceline_test(event_log_test NOT_TSAN SOURCES unit/event_log_test.cc unit/checkpoint_pull_test.cc LIBS
  paceline_replicas)
paceline_test(leader_lease_test NOT_TSAN OPTIMIZED SOURCES unit/leader_lease_test.cc sim/leader_lease_sim_test.cc $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_replicas)
find_package(nlohmann_json REQUIRED)
paceline_test(etcd_test NOT_TSAN SOURCES process/etcd_test.cc LIBS paceline_replicas Boost::headers Threads::Threads
  nlohmann_json::nlohmann_json)
