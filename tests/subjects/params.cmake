# Parameters: layout, partition, optimizers, schedules, blocks, model file, atomic files.
paceline_test(params_test
  SOURCES unit/layout_test.cc unit/optimizer_test.cc unit/optimizer_plain.cc unit/schedule_test.cc
          unit/vector_ops_test.cc unit/blocks_test.cc unit/model_file_test.cc unit/atomic_file_test.cc
  LIBS paceline_params paceline_files Threads::Threads
  LABELS core)
# The tests' truth is compiled as it is written: one element after another.
set_source_files_properties(unit/optimizer_plain.cc PROPERTIES COMPILE_OPTIONS "-O1;-fno-tree-vectorize")
