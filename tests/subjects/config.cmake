# What one YAML file and its overrides mean, what is refused, and the command lines that take them.
paceline_test(config_test
  SOURCES unit/config_load_test.cc unit/config_errors_test.cc unit/config_files_test.cc
          unit/config_command_line_test.cc
  LIBS paceline_config paceline_sync paceline_tools)
target_compile_definitions(config_test PRIVATE PACELINE_CONFIGS_DIR="${PROJECT_SOURCE_DIR}/configs")
