# pip install ./python (python/pyproject.toml): where the library is installed already, and is one that the package
# finds and can use, none is built. PACELINE_BUNDLE builds one all the same, for a wheel that goes elsewhere.
set(PACELINE_IS_INSTALLED FALSE)
if(SKBUILD AND NOT PACELINE_BUNDLE)
  # It is loaded just as the package does.
  execute_process(COMMAND "${Python_EXECUTABLE}" -c
    "import runpy, sys; print(runpy.run_path(sys.argv[1])['library']._name)" ${CMAKE_CURRENT_LIST_DIR}/../python/paceline/_library.py
    RESULT_VARIABLE status OUTPUT_VARIABLE found ERROR_VARIABLE why OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(status EQUAL 0)
    message(STATUS "libpaceline.so: taken as it is installed: ${found} (-DPACELINE_BUNDLE=ON builds one)")
    set(PACELINE_IS_INSTALLED TRUE)
  else()
    string(REGEX REPLACE "^.*\n(.+)\n$" "\\1" why "${why}")
    message(STATUS "libpaceline.so: built, as none is installed that can be taken: ${why}")
  endif()
endif()
