# The server: the store, membership, the authority, and a server over real sockets.
paceline_test(store_test SOURCES unit/store_test.cc LIBS paceline_store LABELS sanitizer)
