# The wire: codec, transport, and what a hostile peer can do to them.
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)

paceline_test(wire_codec_test SOURCES unit/wire_codec_test.cc LIBS paceline_wire paceline_params
  LABELS core)
target_compile_definitions(wire_codec_test PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
paceline_test(wire_malformed_test SOURCES unit/wire_malformed_test.cc LIBS paceline_wire paceline_proto
  LABELS core)
paceline_test(wire_transport_test SOURCES unit/wire_transport_test.cc LIBS paceline_wire LABELS core)
# A sanitizer's allocator is not the one that is told.
if(NOT PACELINE_SANITIZE)
  paceline_test(wire_memory_test SOURCES unit/wire_memory_test.cc LIBS paceline_wire)
endif()
paceline_test(wire_faults_test SOURCES unit/wire_faults_test.cc LIBS paceline_wire PkgConfig::ZMQ LABELS core)

paceline_test(wire_segment_test SOURCES unit/wire_segment_pages_test.cc unit/wire_segment_test.cc
  LIBS paceline_wire LABELS core)
paceline_test(wire_sharing_test
  SOURCES unit/wire_lent_test.cc unit/wire_liar_test.cc unit/wire_sharing_test.cc
  LIBS paceline_wire PkgConfig::ZMQ LABELS core)

# A seeded mutation fuzzer with a bounded number of rounds, fewer where a sanitizer slows each of them.
add_executable(codec_fuzz fuzz/codec_fuzz.cc)
paceline_options(codec_fuzz)
target_link_libraries(codec_fuzz PRIVATE paceline_wire paceline_encode)
set_target_properties(codec_fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
if(PACELINE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_test(NAME codec_fuzz COMMAND codec_fuzz 30000)
else()
  add_test(NAME codec_fuzz COMMAND codec_fuzz 200000)
endif()
set_tests_properties(codec_fuzz PROPERTIES TIMEOUT 120 LABELS core)

# The same property under libFuzzer, as long as one likes: clang only. Build with
#   cmake -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DPACELINE_FUZZER=ON -DPACELINE_SANITIZE=address,undefined
option(PACELINE_FUZZER "Build codec_libfuzzer (needs clang)" OFF)
if(PACELINE_FUZZER)
  add_executable(codec_libfuzzer fuzz/codec_fuzz.cc)
  paceline_options(codec_libfuzzer)
  set_target_properties(codec_libfuzzer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(codec_libfuzzer PRIVATE PACELINE_LIBFUZZER)
  target_compile_options(codec_libfuzzer PRIVATE -fsanitize=fuzzer)
  target_link_options(codec_libfuzzer PRIVATE -fsanitize=fuzzer)
  target_link_libraries(codec_libfuzzer PRIVATE paceline_wire paceline_encode)
endif()
