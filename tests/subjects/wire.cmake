# The wire: codec, transport, and what a hostile peer can do to them.
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)

paceline_test(wire_codec_test NOT_TSAN SOURCES unit/wire_codec_test.cc LIBS paceline_wire paceline_params)
target_compile_definitions(wire_codec_test PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
paceline_test(wire_malformed_test NOT_TSAN SOURCES unit/wire_malformed_test.cc LIBS paceline_wire paceline_proto)
paceline_test(wire_transport_test SOURCES unit/wire_gathered_test.cc unit/wire_transport_test.cc
  unit/wire_unread_test.cc LIBS paceline_wire)
# A sanitizer's allocator is not the one that is told.
paceline_test(wire_memory_test PLAIN SOURCES unit/wire_memory_test.cc LIBS paceline_wire)
paceline_test(wire_faults_test SOURCES unit/wire_faults_test.cc LIBS paceline_wire PkgConfig::ZMQ)

paceline_test(wire_keys_test NOT_TSAN SOURCES unit/keys_test.cc LIBS paceline_wire)
paceline_test(wire_curve_test SOURCES unit/wire_curve_test.cc unit/wire_strangers_test.cc
  LIBS paceline_wire PkgConfig::ZMQ)

paceline_test(wire_segment_test SOURCES unit/wire_segment_pages_test.cc unit/wire_segment_test.cc
  LIBS paceline_wire)
paceline_test(wire_sharing_test
  SOURCES unit/wire_lent_test.cc unit/wire_liar_test.cc unit/wire_sharing_test.cc
  LIBS paceline_wire PkgConfig::ZMQ)

paceline_fuzz(codec_fuzz fuzz/codec_fuzz.cc LIBS paceline_wire paceline_encode ROUNDS 200000)
