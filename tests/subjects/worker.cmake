# The worker: caches, emulation, client, one iteration and where its time goes.
paceline_test(worker_cache_test NOT_TSAN SOURCES unit/worker_cache_test.cc unit/optimizer_plain.cc LIBS
  paceline_worker_cache paceline_params)
paceline_test(worker_emulate_test SOURCES unit/worker_emulate_test.cc LIBS paceline_emulate)
paceline_test(worker_train_test
  SOURCES unit/evaluator_test.cc unit/gradient_upload_test.cc unit/worker_attribution_test.cc
    unit/worker_batches_test.cc
          unit/pull_order_test.cc unit/work_watch_test.cc unit/worker_sink_test.cc unit/worker_pulls_test.cc
          unit/worker_train_test.cc
  LIBS paceline_client paceline_train)
paceline_test(worker_client_test
  SOURCES unit/client_evaluation_test.cc unit/client_joining_test.cc unit/client_reconnect_test.cc
    unit/client_silence_test.cc unit/client_state_test.cc
          unit/gradient_encoder_test.cc unit/gradient_sender_test.cc unit/io_turns_test.cc unit/worker_client_test.cc
          unit/worker_deadlines_test.cc
  LIBS paceline_client)
paceline_test(evaluate_test SOURCES unit/evaluate_test.cc
  LIBS paceline_tools paceline_network_task paceline_config paceline_data paceline_params)
paceline_test(mesh_test SOURCES unit/bucket_sums_test.cc unit/channels_test.cc unit/measured_choice_test.cc
  unit/mesh_keys_test.cc unit/mesh_sums_test.cc unit/mesh_test.cc unit/norm_group_test.cc unit/reduction_counts_test.cc
  unit/spin_test.cc unit/stage_runner_test.cc
  LIBS paceline_mesh paceline_allreduce paceline_pipeline paceline_schedule paceline_config Threads::Threads)
paceline_test(allreduce_loss_test CHECK --schedules 140 SOURCES unit/allreduce_early_test.cc unit/allreduce_end_test.cc unit/allreduce_loss_test.cc unit/allreduce_samples_test.cc $<TARGET_OBJECTS:paceline_seeds_main>
  LIBS paceline_allreduce paceline_authority paceline_mesh paceline_schedule Threads::Threads TIMEOUT 300)
paceline_test(node_test SOURCES unit/foreign_loop_test.cc unit/node_log_test.cc unit/node_sessions_test.cc
  unit/node_totals_test.cc
          unit/prepared_threads_test.cc LIBS paceline_worker paceline_foreign)
