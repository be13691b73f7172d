add_subdirectory(${CMAKE_CURRENT_SOURCE_DIR}/bench)

paceline_test(model_test
  SOURCES unit/model_network_test.cc unit/model_gradient_test.cc unit/model_onednn_test.cc
  LIBS paceline_model)
