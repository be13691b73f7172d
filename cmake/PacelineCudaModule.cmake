# libpaceline_cuda.so: what a worker loads when its run asks for a GPU (common/cuda/load_module.h).
if(NOT PACELINE_CUDA_FOUND)
  # One of an earlier configuration is not of this build.
  file(REMOVE ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/libpaceline_cuda.so)
  return()
endif()

add_library(paceline_cuda MODULE worker/model/cuda/module.cc)
paceline_options(paceline_cuda)
set_target_properties(paceline_cuda PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
target_link_libraries(paceline_cuda PRIVATE
  paceline_cuda_backend paceline_cuda_backend_kernels
  CUDA::cudart CUDA::cublas ${CUDNN_LIBRARY})
# Everything that it needs is found now, and what it has of the project's own code is its own affair.
target_link_options(paceline_cuda PRIVATE LINKER:--no-undefined LINKER:--exclude-libs,ALL)
add_dependencies(paceline_cuda_loader paceline_cuda)
