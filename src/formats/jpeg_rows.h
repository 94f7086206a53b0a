// SPDX-License-Identifier: Apache-2.0
// JPEGs with a restart marker behind each row of blocks. Behind such a marker decoding can begin
// anew, so rows above a crop need not be decoded: not even their Huffman codes, which is most of
// the work. The markers cost 1 to 3 % of a file.
#ifndef RUNGI_FORMATS_JPEG_ROWS_H
#define RUNGI_FORMATS_JPEG_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "rung/status.h"

// Writes the JPEG of `size` bytes (`name` begins messages) to `out`, which is emptied first, with
// such markers: the same coefficients, so the same pixels, as sequential Huffman codes made for the
// picture; comments, EXIF and colour profiles are kept. Files other than JPEG, and those whose
// coefficients would take more than RUNGI_IMAGE_WORK_MAX bytes, are copied. Errors: RUNG_CORRUPT,
// RUNG_FORMAT for a damaged one; RUNG_NO_MEMORY.
rung_status rungi_jpeg_write_rows(const void *data, size_t size, const char *name,
                                  rungi_string *out);

// Finds what follows the first `count` restart markers of the scan from `scan` to `end`, which must
// be in order. NULL when they are not there.
const unsigned char *rungi_jpeg_after_markers(const unsigned char *scan, const unsigned char *end,
                                              int count);

// Copies the header, all that stands before the scan's data, with another height and without what
// decoding does not need. `out` has room for `size` bytes. Returns how many there are; 0 when the
// header is not understood.
size_t rungi_jpeg_cut_header(const unsigned char *data, size_t size, int height,
                             unsigned char *out);

#endif
