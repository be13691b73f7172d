# What one YAML file and its overrides mean, and what is refused.
paceline_test(config_test
  SOURCES unit/config_load_test.cc unit/config_errors_test.cc
  LIBS paceline_config)
