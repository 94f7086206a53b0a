// SPDX-License-Identifier: Apache-2.0
// Archives read as streams: each from its beginning to its end, whatever it is compressed by.
//
// Where every sample lies is known from an index. A worker that wants a sample reads its archive on
// to there, and keeps what it passes for those who will ask for it: so archives are shared out
// among the workers by what is asked of them, and each sample is given once whoever asks. What is
// worth keeping follows from the epoch's order (rung_sampler_stream), which is made so that samples
// that are wanted together lie near each other: little is kept. An order of another kind is right
// too, but archives are begun again when more than RUNGI_STREAM_KEPT_MAX would have to be kept.
#ifndef RUNGI_DATA_TAR_STREAM_H
#define RUNGI_DATA_TAR_STREAM_H

#include "data/picture_source.h"
#include "formats/image_file.h"

// Bytes of samples that are kept at most where no order is known.
enum { RUNGI_STREAM_KEPT_MAX = 1 << 30 };

typedef struct rungi_tar_streams rungi_tar_streams;

// For the places and archives of a picture source, which is borrowed: places rise by archive, and
// in it by where they begin. Errors: RUNG_NO_MEMORY.
rung_status rungi_tar_streams_create(const rungi_picture_source *ps, rungi_tar_streams **out);
void rungi_tar_streams_destroy(rungi_tar_streams **streams);

// Tells the order of an epoch, before its samples are asked for: `order` has `count` samples. The
// last two epochs are remembered. Errors: RUNG_NO_MEMORY.
rung_status rungi_tar_streams_expect(rungi_tar_streams *streams, int64_t epoch,
                                     const int64_t *order, int64_t count);

// Puts a sample into `block`, with RUNGI_PIXELS_SLACK zeros behind it. From any thread. Errors:
// RUNG_CORRUPT when the archive is damaged before its end; RUNG_IO; RUNG_CANCELLED.
rung_status rungi_tar_streams_fetch(rungi_tar_streams *streams, const rung_sample *sample,
                                    rungi_block *block, int64_t *size_out);

// Bytes kept now, for tests.
int64_t rungi_tar_streams_kept(rungi_tar_streams *streams);

// ---- sampler_stream.c asks of a source

// Archives of a source that reads them as streams; 0 of other sources.
int rungi_source_stream_archives(const rung_source *source);
// The first sample of archive `i`; of the number of archives, the count of samples.
int64_t rungi_source_stream_begin(const rung_source *source, int i);
rung_status rungi_source_stream_expect(const rung_source *source, int64_t epoch,
                                       const int64_t *order, int64_t count);
// A second source of the same index, for another loader. The caller owns it.
rung_status rungi_source_stream_again(const rung_source *source, rung_source **source_out);

#endif
