# SPDX-License-Identifier: Apache-2.0
# `cmake --install`: headers, static library, command line, CMake package and pkg-config file. The
# result may be moved: both files find the rest from where they lie.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(RUNG_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rung)
set(RUNG_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS rung EXPORT rung ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/rung DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
if(TARGET rung_cli)
  install(TARGETS rung_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT rung NAMESPACE rung:: FILE rungTargets.cmake DESTINATION ${RUNG_CMAKE_DIR})
configure_package_config_file(cmake/rungConfig.cmake.in rungConfig.cmake
                              INSTALL_DESTINATION ${RUNG_CMAKE_DIR})
write_basic_package_version_file(rungConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rungConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/rungConfigVersion.cmake cmake/dependencies.cmake
        DESTINATION ${RUNG_CMAKE_DIR})

file(RELATIVE_PATH RUNG_PC_PREFIX /p/${RUNG_PC_DIR} /p)
string(REGEX REPLACE "/$" "" RUNG_PC_PREFIX "${RUNG_PC_PREFIX}")
list(JOIN RUNG_PKGCONFIG_MODULES " " RUNG_PC_REQUIRES)
if(RUNG_MPI_MODULE)
  string(APPEND RUNG_PC_REQUIRES " ${RUNG_MPI_MODULE}")
endif()
set(RUNG_PC_LIBS "${DNNL_LIBRARY} ${OPENBLAS_LIBRARY} ${OpenMP_C_FLAGS} -pthread -lm")
configure_file(cmake/rung.pc.in rung.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rung.pc DESTINATION ${RUNG_PC_DIR})
