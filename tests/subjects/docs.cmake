# The documents: short sentences, links that lead somewhere, commands that exist. No program is needed for it.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_FOUND AND NOT PACELINE_SANITIZE)
  add_test(NAME docs_test COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/docs_test.py ${PROJECT_SOURCE_DIR})
  set_tests_properties(docs_test PROPERTIES LABELS check TIMEOUT 120)
endif()
