add_subdirectory(${CMAKE_CURRENT_SOURCE_DIR}/bench)

# Gradients in several threads: exactness_test.
paceline_test(model_test NOT_TSAN
  SOURCES unit/arena_layout_test.cc unit/model_network_test.cc unit/model_gradient_test.cc unit/model_caffe_test.cc
          unit/model_caffe_layers_test.cc unit/model_clipping_test.cc unit/model_onednn_test.cc
          unit/model_pytorch_test.cc unit/foreign_network_test.cc unit/loss_scaler_test.cc
  LIBS paceline_model paceline_foreign_network)

# The CUDA back end on a GPU that is none: no CUDA library is linked.
if(PACELINE_CUDA_HEADERS_FOUND)
  paceline_library(paceline_fake_cuda
    SOURCES fake_cuda/cublas.cc fake_cuda/cudnn.cc fake_cuda/device.cc fake_cuda/kernels.cc
            fake_cuda/runtime.cc
    PUBLIC paceline_cuda_headers)
  # Plain loops, as the reference back end's.
  paceline_compiled_as("-O3" fake_cuda/cublas.cc fake_cuda/cudnn.cc)
  paceline_test(model_cuda_test ALL NOT_TSAN SOURCES unit/model_cuda_test.cc unit/model_cuda_resident_test.cc
      unit/model_cuda_predicted_test.cc
    LIBS paceline_cuda_backend paceline_fake_cuda paceline_model paceline_data)
  paceline_test(model_cuda_threads_test ALL SOURCES unit/model_cuda_threads_test.cc
    LIBS paceline_cuda_backend paceline_fake_cuda paceline_model)
  paceline_test(model_cuda_device_test ALL NOT_TSAN SOURCES unit/model_cuda_device_test.cc
    unit/model_cuda_faults_test.cc
      unit/device_vectors_test.cc unit/difference_plan_test.cc
    LIBS paceline_cuda_backend paceline_fake_cuda paceline_model paceline_data paceline_worker_cache TIMEOUT 300)
  paceline_test(network_task_gpu_test ALL SOURCES unit/network_task_gpu_test.cc
    LIBS paceline_network_task paceline_cuda_backend paceline_fake_cuda paceline_data)
  paceline_test(gpu_cluster_test ALL NOT_TSAN SOURCES process/gpu_cluster_test.cc
    LIBS paceline_test_cluster paceline_network_task paceline_cuda_backend paceline_fake_cuda paceline_data)
endif()

paceline_test(gpu_module_test SOURCES unit/gpu_module_test.cc LIBS paceline_network_task)

# The same test on a real GPU; skipped, with the reason, where there is none.
if(PACELINE_CUDA_FOUND)
  target_compile_definitions(gpu_module_test PRIVATE PACELINE_CUDA_BUILT)
  paceline_program(gpu_test SOURCES unit/model_cuda_test.cc unit/model_cuda_resident_test.cc
            unit/model_cuda_predicted_test.cc unit/device_vectors_test.cc unit/network_task_gpu_test.cc gpu_main.cc
    LIBS paceline_network_task paceline_cuda_backend paceline_cuda_backend_kernels CUDA::cudart CUDA::cublas
      ${CUDNN_LIBRARY}
         paceline_model paceline_data paceline_worker_cache paceline_catch_main)
  set_target_properties(gpu_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME gpu_test COMMAND gpu_test)
  set_tests_properties(gpu_test PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
