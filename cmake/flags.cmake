# SPDX-License-Identifier: Apache-2.0
# Compiler flags of every target, and the overlays that are compiled for one instruction set.
add_library(rung_flags INTERFACE)
target_compile_options(rung_flags INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith
  -Wno-unknown-pragmas
  # In case tables what is left out is zero.
  -Wno-missing-field-initializers
  # Messages are cut at the size of their buffer by design.
  $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
  # RUNGI_VECTORIZE is for builds that optimize.
  $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>
  -fvisibility=hidden
  # Results must not depend on what a compiler chooses to contract or reorder. The last two do not
  # change values, only what may be assumed about errno and traps.
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  $<$<CONFIG:Release,RelWithDebInfo>:-O3>)
if(RUNG_WERROR)
  target_compile_options(rung_flags INTERFACE -Werror)
endif()
if(RUNG_SANITIZE)
  target_compile_options(rung_flags INTERFACE -fsanitize=${RUNG_SANITIZE} -fno-omit-frame-pointer
                                              -fno-sanitize-recover=all -O1
                                              -g1) # lines for reports; half of what -g takes
  target_link_options(rung_flags INTERFACE -fsanitize=${RUNG_SANITIZE})
endif()

# Tests and benchmarks are two hundred programs: they are linked by the first of these linkers that is
# there. What is installed is not.
include(CheckLinkerFlag)
function(rung_links_fast target)
  foreach(linker gold lld)
    check_linker_flag(C -fuse-ld=${linker} RUNG_LINKS_WITH_${linker})
    if(RUNG_LINKS_WITH_${linker})
      target_link_options(${target} PRIVATE -fuse-ld=${linker})
      return()
    endif()
  endforeach()
endfunction()

function(rung_isa_overlays)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
    return()
  endif()
  foreach(source ${ARGN})
    if(source MATCHES "_avx2\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_sse42\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-msse4.2")
    elseif(source MATCHES "_avx512(bf16)?\\.c$")
      set(flags "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;-mprefer-vector-width=512")
      if(source MATCHES "bf16\\.c$")
        list(APPEND flags "-mavx512bf16")
      endif()
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${flags}")
    endif()
  endforeach()
endfunction()
