# A Debian package by CPack (scripts/package.sh): what cmake --install puts there, the Python package, what starts a run
# on one machine or under Slurm, and what the script makes in package/ of the build: pages and completions of --help,
# the change log.
set(made ${CMAKE_BINARY_DIR}/package)
set(share ${CMAKE_INSTALL_DATAROOTDIR})
install(DIRECTORY python/paceline DESTINATION lib/python3/dist-packages COMPONENT package EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY configs DESTINATION ${share}/paceline COMPONENT package EXCLUDE_FROM_ALL)
install(PROGRAMS scripts/make_data.sh scripts/quickstart.sh scripts/run_local.sh scripts/run_slurm.sh DESTINATION
  ${share}/paceline/scripts
  COMPONENT package EXCLUDE_FROM_ALL)
set(called free_ports.sh slurm_task.sh)  # the others of lib/ are sourced
set(called_paths ${called})
list(TRANSFORM called_paths PREPEND scripts/lib/)
list(JOIN called "|" called)
install(DIRECTORY scripts/lib DESTINATION ${share}/paceline/scripts COMPONENT package EXCLUDE_FROM_ALL
  FILES_MATCHING PATTERN "*.sh" REGEX "/(${called})$" EXCLUDE)
install(PROGRAMS ${called_paths} DESTINATION ${share}/paceline/scripts/lib COMPONENT package EXCLUDE_FROM_ALL)
set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
install(FILES ${debian}/copyright ${made}/changelog.gz DESTINATION ${share}/doc/paceline COMPONENT package
  EXCLUDE_FROM_ALL)
install(FILES ${debian}/lintian-overrides DESTINATION ${share}/lintian/overrides RENAME paceline
  COMPONENT package EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/man1 DESTINATION ${share}/man COMPONENT package EXCLUDE_FROM_ALL)
install(DIRECTORY ${made}/completions/ DESTINATION ${share}/bash-completion/completions COMPONENT package
  EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME paceline)
set(CPACK_PACKAGE_CONTACT "The authors of Paceline <paceline@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains deep networks on machines of unequal speed")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Servers hold the parameters of a network, workers compute gradients, and a
rule says how far a fast worker may lead a slow one. Programs, libpaceline
with its header, the Python package, example configurations and the scripts
that start runs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL programs library package)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# GENERATE_SHLIBS would call ldconfig itself
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${debian}/triggers;${debian}/shlibs")
set(CPACK_DEBIAN_PACKAGE_DEPENDS python3)
# python3-numpy is what the Python package needs; the programs do not. setpriv and flock (util-linux) are everywhere.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-numpy, procps")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bash-completion")
include(CPack)
