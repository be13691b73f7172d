# Checkpoints: the files, the folder, a shard's image while training goes on, and what bytes can do to the readers.
find_package(Threads REQUIRED)
paceline_test(checkpoint_files_test NOT_TSAN
  SOURCES unit/checkpoint_shard_file_test.cc unit/checkpoint_manifest_test.cc unit/checkpoint_folder_test.cc
  LIBS paceline_checkpoint)
paceline_test(checkpoint_store_test
  SOURCES unit/checkpoint_store_test.cc unit/checkpoint_writer_test.cc
  LIBS paceline_checkpoint Threads::Threads)
paceline_fuzz(checkpoint_fuzz fuzz/checkpoint_fuzz.cc LIBS paceline_checkpoint ROUNDS 200000)
paceline_fuzz(engine_state_fuzz fuzz/engine_state_fuzz.cc LIBS paceline_checkpoint_state paceline_sync ROUNDS 1000000)
