# The wire: codec, transport, and what a hostile peer can do to them.
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)

paceline_test(wire_transport_test SOURCES unit/wire_transport_test.cc LIBS paceline_wire)
