# The documents: short sentences, links that lead somewhere, commands that exist; and the sizes of files and classes. No
# program is needed for either.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND NOT PACELINE_SANITIZE)
  foreach(name docs_test sizes_test)
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py ${PROJECT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES LABELS check TIMEOUT 120)
  endforeach()
endif()
