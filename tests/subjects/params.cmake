# Parameters: layout, partition, optimizers, loops, schedules, blocks, model file, atomic files, encodings.
paceline_test(params_test
  SOURCES unit/layout_test.cc unit/optimizer_formulas_test.cc unit/optimizer_test.cc unit/optimizer_plain.cc
    unit/schedule_test.cc
          unit/vector_ops_test.cc unit/blocks_test.cc unit/model_file_test.cc unit/safetensors_test.cc
          unit/atomic_file_test.cc
          unit/pipeline_plan_test.cc unit/plan_test.cc unit/trust_ratio_test.cc
  LIBS paceline_params paceline_schedule paceline_files Threads::Threads)
# The tests' truth is compiled as it is written: one element after another.
paceline_compiled_as("-O1;-fno-tree-vectorize" unit/optimizer_plain.cc)

paceline_test(kernels_test NOT_TSAN SOURCES unit/kernels_test.cc LIBS paceline_params)
paceline_test(encode_test NOT_TSAN SOURCES unit/encode_test.cc unit/conversions_test.cc LIBS paceline_encode
  paceline_params)
# Sanitizers add symbols of their own.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND CMAKE_NM AND NOT PACELINE_SANITIZE AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(symbols ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/unit/kernel_symbols_test.py ${CMAKE_NM})
  add_test(NAME kernel_symbols_test COMMAND ${symbols} $<TARGET_FILE:paceline_params>
    kernels_avx2.cc.o=paceline::kernels::kAvx2Kernels kernels_avx512.cc.o=paceline::kernels::kAvx512Kernels)
  add_test(NAME conversion_symbols_test COMMAND ${symbols} $<TARGET_FILE:paceline_encode>
    conversions_avx2.cc.o=paceline::conversions::kAvx2Conversions)
  add_test(NAME pixel_symbols_test COMMAND ${symbols} $<TARGET_FILE:paceline_images>
    pixel_loops_avx2.cc.o=paceline::pixels::kAvx2Loops)
  set_tests_properties(kernel_symbols_test conversion_symbols_test pixel_symbols_test PROPERTIES LABELS check)
endif()
