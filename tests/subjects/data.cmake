# The data's path: reading, generating, shuffling, augmenting, loading ahead.
paceline_test(data_test NOT_TSAN
  SOURCES unit/cifar10_test.cc unit/synthetic_test.cc unit/augment_test.cc
  LIBS paceline_data)
paceline_test(sampler_test NOT_TSAN SOURCES unit/sampler_test.cc LIBS paceline_data rapidcheck)
paceline_test(loader_test
  SOURCES unit/loader_test.cc
  LIBS paceline_data Threads::Threads)
paceline_fuzz(cifar10_fuzz fuzz/cifar10_fuzz.cc LIBS paceline_data ROUNDS 20000)
# Folders of pictures, which the tests make with the libraries that read them.
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
paceline_test(images_test
  SOURCES unit/images_decode_test.cc unit/images_resample_test.cc unit/images_folder_test.cc unit/images_samples_test.cc
  LIBS paceline_images paceline_run_data JPEG::JPEG PNG::PNG Threads::Threads)
