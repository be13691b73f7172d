# Where a build finds its libraries on a machine that has a GPU and, perhaps, nothing else of ours: those that
# scripts/carry_libraries.sh packed, and cuBLAS and cuDNN where Python keeps its own. To be sourced.
# shellcheck shell=bash disable=SC2034

gpu_options=() # for CMake

# Unpacks $1/libraries.tar.gz, where there is one, into build/carried; says where the libraries are: to CMake in
# `gpu_options`, and to the linker, protoc and the programs in LD_LIBRARY_PATH, since what a library needs is not looked
# for where the program that needs the library is told to look.
find_libraries() {
  local carried=$PWD/build/carried
  if [ -e "$1/libraries.tar.gz" ]; then
    if [ ! -e "$carried/usr" ] || [ "$1/libraries.tar.gz" -nt "$carried/usr" ]; then
      rm -rf "$carried"
      mkdir -p "$carried"
      tar -C "$carried" -xf "$1/libraries.tar.gz" || fail "cannot unpack $1/libraries.tar.gz" 1
      touch "$carried/usr"
    fi
    gpu_options+=("-DCMAKE_PREFIX_PATH=$carried/usr" -DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu -DPACELINE_WERROR=OFF
      -DCMAKE_POLICY_VERSION_MINIMUM=3.5) # of the packages' own files, for CMake 4
    prepend CPLUS_INCLUDE_PATH "$carried/usr/include" # what is found without a word everywhere else
    prepend LD_LIBRARY_PATH "$carried/usr/lib/x86_64-linux-gnu"
    prepend PKG_CONFIG_PATH "$carried/usr/share/pkgconfig"
    prepend PKG_CONFIG_PATH "$carried/usr/lib/x86_64-linux-gnu/pkgconfig"
  fi
  if ! command -v nvcc >/dev/null && [ -x /usr/local/cuda/bin/nvcc ]; then prepend PATH /usr/local/cuda/bin; fi
  find_python_cuda
}

prepend() { # NAME FOLDER
  local -n path=$1
  path=$2${path:+:$path}
  export "${1?}"
}

# cuBLAS and cuDNN of Python's packages, for what the toolkit lacks. Their libraries have no name without a number,
# under which a linker looks for them. Programs that were built elsewhere find all of CUDA's libraries by
# LD_LIBRARY_PATH.
find_python_cuda() {
  local nvcc toolkit='' nvidia library file folder
  if nvcc=$(command -v nvcc); then toolkit=$(dirname "$(dirname "$(realpath "$nvcc")")"); fi
  nvidia=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null) || nvidia=''
  for library in cublas cudnn; do
    file=$(first_of "lib$library.so" "$toolkit" /usr/lib/x86_64-linux-gnu)
    if [ -n "$file" ]; then continue; fi
    file=$(first_of "lib$library.so.*" "$nvidia")
    [ -n "$file" ] || continue
    case "$library" in
      cublas) gpu_options+=("-DCUDA_cublas_LIBRARY=$file" "-DCUBLAS_INCLUDE_DIR=$(header_folder cublas_v2.h)") ;;
      cudnn) gpu_options+=("-DCUDNN_LIBRARY=$file" "-DCUDNN_INCLUDE_DIR=$(header_folder cudnn.h)") ;;
    esac
  done
  for folder in ${nvidia:+"$nvidia"/*/lib} ${toolkit:+"$toolkit/lib64"}; do
    if [ -n "$(first_of 'libcu*.so.*' "$folder")" ]; then prepend LD_LIBRARY_PATH "$folder"; fi
  done
}
header_folder() { dirname "$(first_of "$1" "$nvidia" "$toolkit")"; }
first_of() { # NAME FOLDER…: the first file of that name below the folders that are there
  local name=$1 folder
  shift
  for folder in "$@"; do
    # A folder may hold a link to itself: find says so, and goes on.
    [ ! -d "$folder" ] || find -L "$folder" -name "$name" -not -path '*/stubs/*' -print -quit 2>/dev/null || true
  done | head -n 1
}
