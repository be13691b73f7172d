# The data's path: reading, generating, shuffling, augmenting, loading ahead.
paceline_test(data_test
  SOURCES unit/cifar10_test.cc unit/synthetic_test.cc unit/augment_test.cc
  LIBS paceline_data
  LABELS core)
paceline_test(sampler_test SOURCES unit/sampler_test.cc LIBS paceline_data rapidcheck LABELS core)
paceline_test(loader_test
  SOURCES unit/loader_test.cc
  LIBS paceline_data Threads::Threads
  LABELS core)
paceline_fuzz(cifar10_fuzz fuzz/cifar10_fuzz.cc LIBS paceline_data ROUNDS 20000)
