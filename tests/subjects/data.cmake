# The data's path: reading, generating, shuffling, augmenting, loading ahead.
paceline_test(data_test NOT_TSAN
  SOURCES unit/cifar10_test.cc unit/synthetic_test.cc unit/augment_test.cc
  LIBS paceline_data)
paceline_test(sampler_test NOT_TSAN SOURCES unit/sampler_test.cc LIBS paceline_data rapidcheck)
paceline_test(loader_test
  SOURCES unit/loader_test.cc
  LIBS paceline_data Threads::Threads)
paceline_fuzz(cifar10_fuzz fuzz/cifar10_fuzz.cc LIBS paceline_data ROUNDS 20000)
