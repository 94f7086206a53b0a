# SPDX-License-Identifier: Apache-2.0
# The libraries that rung stands on, gathered in one interface target.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)

# OpenBLAS, the OpenMP variant: its pkg-config file lies in a folder of its own.
find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-openmp x86_64-linux-gnu/openblas-openmp
          aarch64-linux-gnu/openblas-openmp REQUIRED)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)

add_library(rung_dependencies INTERFACE)
target_include_directories(rung_dependencies SYSTEM INTERFACE ${OPENBLAS_INCLUDE} ${DNNL_INCLUDE})
if(RUNG_OPENMP)
  # oneDNN and OpenBLAS run on libgomp. clang's code needs LLVM's runtime, which also answers to
  # libgomp's names: linked first, it is the only one that runs, for the libraries too. Two pools on
  # the same cores would halve each other.
  find_package(OpenMP REQUIRED COMPONENTS C)
  target_link_libraries(rung_dependencies INTERFACE OpenMP::OpenMP_C)
  target_compile_definitions(rung_dependencies INTERFACE RUNG_OPENMP=1)
endif()

target_link_libraries(rung_dependencies INTERFACE
  ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY} PkgConfig::YAML PkgConfig::JANSSON PkgConfig::XXHASH
  PkgConfig::HWLOC PkgConfig::PNG PkgConfig::ZLIB Threads::Threads m)
