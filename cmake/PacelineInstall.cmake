# cmake --install: the programs, libpaceline.so and its header, and how others find it: find_package(paceline), which
# gives the target paceline::paceline, and pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Components: programs; library, which is what a loop of a user's own needs.
set_target_properties(paceline paceline-server paceline-worker PROPERTIES INSTALL_RPATH $ORIGIN)  # the module for GPUs
install(TARGETS paceline paceline-server paceline-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
if(TARGET paceline_cuda)
  install(TARGETS paceline_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endif()
install(TARGETS paceline_shared EXPORT paceline LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  NAMELINK_COMPONENT library)
install(FILES include/paceline/data.h include/paceline/paceline.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/paceline
  COMPONENT library)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/paceline)
install(EXPORT paceline NAMESPACE paceline:: FILE pacelineConfig.cmake DESTINATION ${package} COMPONENT library)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/pacelineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/pacelineConfigVersion.cmake DESTINATION ${package} COMPONENT library)

file(RELATIVE_PATH up ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/paceline.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@up@
Name: paceline
Description: Any training loop as a worker of a Paceline run
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -lpaceline
]])
install(FILES ${CMAKE_BINARY_DIR}/paceline.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)

# The one file of a Python wheel that is compiled (python/pyproject.toml).
install(FILES $<TARGET_FILE:paceline_shared> DESTINATION paceline RENAME libpaceline.so.0 COMPONENT python EXCLUDE_FROM_ALL)
