# What one YAML file and its overrides mean, what is refused, and the command lines that take them.
paceline_test(config_test NOT_TSAN
  SOURCES unit/config_load_test.cc unit/config_addresses_test.cc unit/config_contradictions_test.cc
    unit/config_groups_test.cc unit/config_epochs_test.cc unit/config_errors_test.cc unit/config_files_test.cc
          unit/config_command_line_test.cc
  LIBS paceline_config paceline_sync paceline_tools)
# Caffe's nets, solvers and weights.
paceline_test(caffe_test NOT_TSAN SOURCES unit/caffe_test.cc unit/caffe_nets_test.cc
  LIBS paceline_model_table paceline_caffe paceline_config paceline_network paceline_model)

target_compile_definitions(config_test PRIVATE PACELINE_CONFIGS_DIR="${PROJECT_SOURCE_DIR}/configs")

# `paceline doctor`, which looks at this machine.
find_package(Boost 1.74 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED)
paceline_test(doctor_test SOURCES unit/doctor_test.cc unit/doctor_endpoints_test.cc
  LIBS paceline_tools paceline_config paceline_data Boost::headers nlohmann_json::nlohmann_json)

paceline_fuzz(config_fuzz fuzz/config_fuzz.cc LIBS paceline_config ROUNDS 20000)
target_compile_definitions(config_fuzz PRIVATE PACELINE_CONFIGS_DIR="${PROJECT_SOURCE_DIR}/configs")
