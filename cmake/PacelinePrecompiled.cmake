# Precompiled headers, with PACELINE_PRECOMPILE: the standard library's are parsed once for each set of compiler
# options, and Catch2's with them for the tests. No source relies on it: each includes what it uses, as the preset
# `debug`, which has none, shows.
set(PACELINE_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque> <filesystem> <fstream>
  <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set> <span> <sstream> <string>
  <string_view> <thread> <tuple> <unordered_map> <unordered_set> <utility> <variant> <vector>)

# paceline_precompiled_owner(KIND [options...] [HEADERS headers...]): the headers of one KIND, compiled with these
# options.
function(paceline_precompiled_owner kind)
  if(NOT PACELINE_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS" ${ARGN})
  set(owner paceline_precompiled_${kind})
  set(source ${CMAKE_BINARY_DIR}/precompiled_${kind}.cc)
  file(WRITE ${source} "// Every target that shares these headers is compiled as this file.\n")
  add_library(${owner} OBJECT EXCLUDE_FROM_ALL ${source})
  paceline_options(${owner})
  if(NOT kind MATCHES "^tests")
    paceline_position_independent(${owner})
  endif()
  target_compile_options(${owner} PRIVATE ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${owner} PRIVATE ${ARG_LIBS})
  target_precompile_headers(${owner} PRIVATE ${PACELINE_PRECOMPILED_HEADERS} ${ARG_HEADERS})
  # For ccache, which looks at what was preprocessed.
  target_compile_options(${owner} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# paceline_precompiled(TARGET KIND): TARGET, whose options are those of that kind's owner, uses its headers.
function(paceline_precompiled target kind)
  if(NOT PACELINE_PRECOMPILE)
    return()
  endif()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${target} REUSE_FROM paceline_precompiled_${kind})
endfunction()

# paceline_compiled_as(OPTIONS "options" files...): files with options of their own, and so without those headers.
function(paceline_compiled_as options)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

paceline_precompiled_owner(product)
if(PACELINE_COLD)  # else what is cold has the options of all
  paceline_precompiled_owner(cold ${PACELINE_COLD})
endif()
