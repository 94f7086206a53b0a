# SPDX-License-Identifier: Apache-2.0
# The commit and the kind of build, for `rung env`. Only the file that tells them is rebuilt.
set(RUNG_COMMIT unknown)
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD
                  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE commit
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
                  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE moves
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --show-prefix
                  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE prefix
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND prefix STREQUAL "") # else the sources lie within a repository of others
    set(RUNG_COMMIT ${commit})
    # Each commit adds a line to this file, so that the next build configures again.
    get_filename_component(moves "${moves}" ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
    if(EXISTS "${moves}")
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${moves}")
    endif()
  endif()
endif()
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/train/environment.c PROPERTIES
  COMPILE_DEFINITIONS "RUNG_COMMIT=\"${RUNG_COMMIT}\";RUNG_BUILD_TYPE=\"${CMAKE_BUILD_TYPE}\";\
RUNG_SANITIZERS=\"${RUNG_SANITIZE}\"")
