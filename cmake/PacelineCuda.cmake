# What of CUDA is here. What computes on a GPU (worker/model/cuda) needs the CUDA Toolkit with its compiler and cuBLAS,
# and cuDNN; its test on a fake GPU (tests/fake_cuda) needs their headers alone. Sets
#   PACELINE_CUDA_FOUND          the back end is built
#   PACELINE_CUDA_HEADERS_FOUND  its test is built; paceline_cuda_headers is the target
# A toolkit in a place of its own: -DCUDAToolkit_ROOT=..., or nvcc on PATH, or CUDACXX. cuBLAS and cuDNN in places of
# their own, as Python's packages have them: -DCUBLAS_INCLUDE_DIR, -DCUDA_cublas_LIBRARY, -DCUDNN_INCLUDE_DIR,
# -DCUDNN_LIBRARY.
set(PACELINE_CUDA OFF CACHE STRING "Gradients on a GPU: ON, OFF or AUTO (when CUDA and cuDNN are found)")
set_property(CACHE PACELINE_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT PACELINE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "PACELINE_CUDA is ${PACELINE_CUDA}, expected AUTO, ON or OFF")
endif()

set(PACELINE_CUDA_FOUND FALSE)
set(PACELINE_CUDA_HEADERS_FOUND FALSE)
set(missing "")

set(PACELINE_CUDA_MAJOR 13)
set(PACELINE_CUDNN_MAJOR 9)
find_package(CUDAToolkit ${PACELINE_CUDA_MAJOR} QUIET)
find_path(CUBLAS_INCLUDE_DIR cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
set(cudnn_major 0)
if(CUDNN_INCLUDE_DIR AND EXISTS ${CUDNN_INCLUDE_DIR}/cudnn_version.h)
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h cudnn_major REGEX "^#define CUDNN_MAJOR ")
  string(REGEX REPLACE "[^0-9]*([0-9]+).*" "\\1" cudnn_major "${cudnn_major}")
endif()
if(CUDAToolkit_FOUND AND cudnn_major GREATER_EQUAL PACELINE_CUDNN_MAJOR AND CUBLAS_INCLUDE_DIR)
  set(PACELINE_CUDA_HEADERS_FOUND TRUE)
  add_library(paceline_cuda_headers INTERFACE)
  # The toolkit's first: a folder of Python's may hold the run time's, of another release.
  target_include_directories(paceline_cuda_headers SYSTEM INTERFACE
    ${CUDAToolkit_INCLUDE_DIRS} ${CUBLAS_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
else()
  message(STATUS "Without the headers of CUDA ${PACELINE_CUDA_MAJOR}, cuBLAS and cuDNN ${PACELINE_CUDNN_MAJOR}: the test of the back end on a GPU is not built")
endif()

# A sanitizer watches what it has instrumented, which nothing on a GPU is: there the fake GPU stands for it.
if(PACELINE_SANITIZE)
  if(PACELINE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "PACELINE_CUDA=ON with PACELINE_SANITIZE: not both")
  endif()
  set(missing "a build without a sanitizer")
elseif(NOT PACELINE_CUDA STREQUAL "OFF")
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NOT CUDAToolkit_FOUND)
    set(missing "the CUDA Toolkit, ${PACELINE_CUDA_MAJOR} or newer")
  elseif(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublas)
    set(missing "the CUDA run time or cuBLAS")
  elseif(NOT PACELINE_CUDA_HEADERS_FOUND OR NOT CUDNN_LIBRARY)
    set(missing "the headers of cuBLAS, or cuDNN, ${PACELINE_CUDNN_MAJOR} or newer")
  else()
    # The toolkit's own compiler, where none is named or on PATH.
    if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
      set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    # Each major generation that CUDA 13 knows; the last also as code that later ones compile when it is loaded.
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100-real 120)
    endif()
    if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER)
      set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
      # CMake 3.25 does not know that nvcc has had C++20 since 12.0.
      if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
        set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
        set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      endif()
      set(PACELINE_CUDA_FOUND TRUE)
    else()
      set(missing "nvcc")
    endif()
  endif()
endif()

# paceline_cuda_kernels(NAME FILE.cu): our own kernels, as a static library for the module.
function(paceline_cuda_kernels name file)
  add_library(${name} STATIC ${file})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE CUDA::cudart)
  # Relaxed: a kernel may call what is constexpr, which our random numbers and dropout rules are. No product is
  # contracted with a sum: a step on a GPU is, to the bit, what the host's loops make of the gradient.
  target_compile_options(${name} PRIVATE --expt-relaxed-constexpr --fmad=false -Xcompiler=-Wall,-Wextra,-Wshadow)
  if(PACELINE_WERROR)
    target_compile_options(${name} PRIVATE -Werror=all-warnings -Xcompiler=-Werror)
  endif()
  if(CCACHE)
    set_target_properties(${name} PROPERTIES CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

if(PACELINE_CUDA_FOUND)
  message(STATUS "Gradients on a GPU: CUDA ${CUDAToolkit_VERSION}, ${CUDNN_LIBRARY}")
elseif(PACELINE_CUDA STREQUAL "ON")
  message(FATAL_ERROR "PACELINE_CUDA=ON, but there is no: ${missing}")
elseif(PACELINE_CUDA STREQUAL "AUTO")
  message(STATUS "No gradients on a GPU; it would take ${missing}")
endif()
