# The pure core and the cache rules.
paceline_test(sync_scenario_test
  SOURCES scenario/scenario_test.cc scenario/render.cc
  LIBS paceline_sync)
target_compile_definitions(sync_scenario_test PRIVATE
  PACELINE_SCENARIO_DIR="${CMAKE_CURRENT_SOURCE_DIR}/scenario")

paceline_test(sync_purity_test SOURCES unit/purity_test.cc)
target_compile_definitions(sync_purity_test PRIVATE PACELINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# The other half of purity: the two libraries link to nothing at all.
foreach(library paceline_sync paceline_cache)
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(linked ${library} ${property})
    if(linked)
      message(FATAL_ERROR "${library} must link to nothing, but links to: ${linked}")
    endif()
  endforeach()
endforeach()
