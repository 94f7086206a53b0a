// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_DATA_SOURCE_NPY_H
#define RUNGI_DATA_SOURCE_NPY_H

#include "rung/data.h"

// rung_source_npy of two arrays of an .npz archive.
rung_status rungi_source_npz(const char *path, const char *images, const char *labels,
                             rung_source **source_out);

#endif
