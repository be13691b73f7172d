# The worker: caches, emulation, client, one iteration and where its time goes.
paceline_test(worker_cache_test SOURCES unit/worker_cache_test.cc LIBS paceline_worker_cache paceline_params
  LABELS core)
paceline_test(worker_emulate_test SOURCES unit/worker_emulate_test.cc LIBS paceline_emulate LABELS core)
