# SPDX-License-Identifier: Apache-2.0
# The libraries that rung stands on, gathered in the target rung_dependencies. This file is also
# installed beside rungConfig.cmake: a static library needs its dependencies found again by whoever
# links it. Hence no target here may depend on rung's source tree.

# Modules found by pkg-config; rung.pc names the same ones.
set(RUNG_PKGCONFIG_MODULES yaml-0.1 jansson libxxhash hwloc libpng zlib libdeflate libjpeg libwebp
    libarchive libpcre2-8)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# MPI is optional: without it ranks are threads. RUNG_MPI_MODULE becomes the one that is found.
if(RUNG_MPI AND NOT RUNG_MPI_MODULE)
  foreach(module ompi-c mpich)
    pkg_check_modules(RUNG_MPI_PROBE QUIET ${module})
    if(RUNG_MPI_PROBE_FOUND AND NOT RUNG_MPI_MODULE)
      set(RUNG_MPI_MODULE ${module})
    endif()
  endforeach()
  if(NOT RUNG_MPI_MODULE AND NOT RUNG_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "RUNG_MPI=${RUNG_MPI}: pkg-config finds neither ompi-c nor mpich")
  endif()
endif()
if(RUNG_MPI_MODULE)
  pkg_check_modules(RUNG_MPI_LIBRARY REQUIRED IMPORTED_TARGET ${RUNG_MPI_MODULE})
endif()
pkg_check_modules(RUNG_MODULES REQUIRED IMPORTED_TARGET ${RUNG_PKGCONFIG_MODULES})

# OpenBLAS, the OpenMP variant: its pkg-config file lies in a folder of its own.
find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-openmp x86_64-linux-gnu/openblas-openmp
          aarch64-linux-gnu/openblas-openmp REQUIRED)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE oneapi/dnnl/dnnl.h REQUIRED)

if(NOT TARGET rung_dependencies)
  # IMPORTED, so that rung's exported target may name it.
  add_library(rung_dependencies INTERFACE IMPORTED)
  target_include_directories(rung_dependencies SYSTEM INTERFACE ${OPENBLAS_INCLUDE} ${DNNL_INCLUDE})
  if(RUNG_OPENMP)
    # oneDNN and OpenBLAS run on libgomp. clang's code needs LLVM's runtime, which also answers to
    # libgomp's names: linked first, it is the only one that runs, for the libraries too. Two pools
    # on the same cores would halve each other.
    find_package(OpenMP REQUIRED COMPONENTS C)
    target_link_libraries(rung_dependencies INTERFACE OpenMP::OpenMP_C)
    target_compile_definitions(rung_dependencies INTERFACE RUNG_OPENMP=1)
  endif()
  if(RUNG_MPI_MODULE)
    target_link_libraries(rung_dependencies INTERFACE $<LINK_ONLY:PkgConfig::RUNG_MPI_LIBRARY>)
  endif()
  target_link_libraries(rung_dependencies INTERFACE
    ${DNNL_LIBRARY} ${OPENBLAS_LIBRARY} PkgConfig::RUNG_MODULES Threads::Threads m)
endif()
