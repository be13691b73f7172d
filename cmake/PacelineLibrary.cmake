# How libraries that are COLD are optimised, where that differs from the others.
set(PACELINE_COLD "")
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(PACELINE_COLD -O1)
elseif(NOT PACELINE_SANITIZE)
  set(PACELINE_COLD -O0)
endif()

# paceline_library(NAME [COLD | NOT_PRECOMPILED] sources... [PUBLIC libs...] [PRIVATE libs...]): one folder's idea as
# one static library, with the project's include root, warnings and sanitizers. A library's link line is its list of
# permitted dependencies. NOT_PRECOMPILED: what it links to brings compiler options of its own.
# COLD: nothing in it is called once an iteration or for every parameter; a release build optimises it less and `check`
# not at all, which takes three quarters of the time to compile.
function(paceline_library name)
  cmake_parse_arguments(ARG "COLD;NOT_PRECOMPILED" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  paceline_options(${name})
  paceline_position_independent(${name})
  if(ARG_COLD AND PACELINE_COLD)
    target_compile_options(${name} PRIVATE ${PACELINE_COLD})
    paceline_precompiled(${name} cold)
  elseif(NOT ARG_NOT_PRECOMPILED)
    paceline_precompiled(${name} product)
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
endfunction()

# paceline_program(NAME sources... LIBS libs...): a program in build/<preset>/bin.
function(paceline_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  paceline_options(${name})
  target_compile_options(${name} PRIVATE -fPIC -fno-semantic-interposition)  # as what its headers are compiled with
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  paceline_precompiled(${name} product)
endfunction()

# What may be linked into a shared library, as libpaceline.so and the module for GPUs. No other definition takes a
# function's place, so it is optimised as it is without.
function(paceline_position_independent target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
endfunction()

function(paceline_options target)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
  # What comes from a file or a peer is never a format string; an error with PACELINE_WERROR off, too.
  target_compile_options(${target} PRIVATE -Wformat=2 -Werror=format-security)
  # GCC 12 and 13 see an overlap that cannot be in `"x" + std::string` (GCC bug 105651), in optimised builds.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  # GCC 14 at -O1 takes what an empty std::optional holds for used (GCC bug 80635); GCC 12 says what is.
  target_compile_options(${target} PRIVATE
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,13>>:-Wno-maybe-uninitialized>)
  # Of what it inlines from a precompiled header it no longer knows that it is the standard library's: the same overlap
  # by other names.
  if(PACELINE_PRECOMPILE)
    target_compile_options(${target} PRIVATE
      "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<CONFIG:Release>>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
  endif()
  # Of `#pragma GCC ivdep` (common/params/kernel_loops.h) Clang knows nothing; its loops only vectorise less.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas>)
  # No FMA contraction anywhere: the same operations give the same bits on every instruction set
  # (docs/SYNC.md, What is reproducible).
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  if(PACELINE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(PACELINE_FUZZER)
    # libFuzzer steers by what an input reaches in the libraries; the fuzzer's own source has next to nothing to reach.
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(PACELINE_SANITIZE)
    # GCC 12 takes the sanitizers' own temporaries for uninitialised reads inside <regex> (GCC bug 105562).
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    target_compile_options(${target} PUBLIC -fsanitize=${PACELINE_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=all)
    if(PACELINE_SANITIZE_TRAPS AND PACELINE_SANITIZE MATCHES undefined)
      target_compile_options(${target} PUBLIC
        $<$<CXX_COMPILER_ID:GNU>:-fsanitize-undefined-trap-on-error>
        "$<$<CXX_COMPILER_ID:Clang>:-fsanitize-trap=undefined;-fno-sanitize=vptr>")
    endif()
    if(PACELINE_SANITIZE MATCHES thread)
      # The sanitizer does not understand fences, and GCC says so as an error. Asio's handlers are handed over under
      # a mutex; its fences around them only matter to handlers that touch memory behind its back.
      target_compile_definitions(${target} PUBLIC BOOST_ASIO_DISABLE_FENCED_BLOCK)
      # Whether an object is of the type it is used as, which a trap cannot tell: looked at here for both builds.
      target_compile_options(${target} PUBLIC -fsanitize=vptr)
      target_link_options(${target} PUBLIC -fsanitize=vptr)
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${PACELINE_SANITIZE})
  endif()
endfunction()
