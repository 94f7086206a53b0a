// SPDX-License-Identifier: Apache-2.0
// Winograd convolution, 3x3, stride 1, channels last: what its kernels share. This page is about
// float32; conv2d_winograd_half.h tells what is otherwise in bf16, which has the same driver.
//
// An output tile of 4x4 pixels comes from an input tile of 6x6 (Lavin & Gray 2015, "Fast Algorithms
// for Convolutional Neural Networks"):
//     forward F(4x4, 3x3)           y  = A^T [ sum over c of (G g G^T) . (B^T x B) ] A
//     weight gradient F(3x3, 4x4)   dg = G^T [ sum over tiles of (B^T x B) . (A dy A^T) ] G
// where . multiplies the 36 points of a tile one by one: 36 products instead of 144. The gradient
// of the input is a forward convolution of dy with the weight rotated by 180 degrees, its channels
// exchanged, padded by 2 - pad.
//
// The polynomials are taken at 0, +-5/8, +-3/2 and infinity. These are exact in binary, cost what
// the usual 0, +-1, +-2 cost and round a quarter of them: of the largest value, forward errs by up
// to 8e-6 and the weight gradient by up to 1e-5 (512 channels, normal values).
//
// Once transformed, each of the 36 points is a product of matrices of its own:
//     forward          M[k] = V[k] U[k]       (tiles x channels) (channels x outputs)
//     weight gradient  D[k] += V[k]^T Z[k]    (channels x tiles) (tiles x outputs)
// V has rows of channels. U and Z are cut into panels of 1 to 4 vectors, each panel contiguous:
//
//     V[k]  tile 0  c c c c c c .      U[k], Z[k]  row 0 |oooooooo|  |oooooooo|  |oooooooooooo|
//           tile 1  c c c c c c .                  row 1 |oooooooo|  |oooooooo|  |oooooooooooo|
//           ...                                     ...    panel 0     panel 1      panel 2
//
// Every sum runs over channels, or tiles, in their order and has one accumulator, whatever the
// blocks are; the weight gradient's tiles are cut into parts by the shapes alone, which are added
// in a fixed tree. So any number of threads gives the same bits. AVX2 and AVX-512 give the same
// bits too; plain C rounds products before it adds them.
#ifndef RUNGI_OPS_CONV2D_WINOGRAD_H
#define RUNGI_OPS_CONV2D_WINOGRAD_H

#include "ops/op.h"

enum {
    RUNGI_WINO_TILE = 4, // pixels of an output tile's side, in float32
    RUNGI_WINO_POINTS = 36,
    RUNGI_WINO_PARTS = 8,
    RUNGI_WINO_SUMMED = 8, // tiles of a part of the sums by channel
};

// An image tensor [N, H, W, C] cut into tiles, counted row by row, image by image.
typedef struct rungi_wino_image {
    int64_t h, w, c;
    int64_t rows, cols; // tiles of one image
    int64_t pad;        // tile (i, j) begins at pixel (4 i - pad, 4 j - pad); or 2 i, 2 j
} rungi_wino_image;

// V: for each chunk of channels 36 planes of [tiles][width]. A word of it, of U and of Z is a
// float32 or a pair of bf16.
typedef struct rungi_wino_rows {
    int64_t chunk; // channels in a chunk; a multiple of a vector, or all
    int64_t width; // words from tile to tile
    int64_t plane; // words from point to point; 36 of them from chunk to chunk
} rungi_wino_rows;

// U or Z: for each chunk of outputs 36 planes of panels.
typedef struct rungi_wino_panels {
    int lanes;     // of a vector
    int vectors;   // of a row, which end with a whole one
    int count;     // panels
    bool half;     // AVX-512: the last vector is filled to its half at most
    int64_t depth; // rows: words of a row of V, or tiles
    int64_t plane; // words from point to point
} rungi_wino_panels;

// A weight seen as [outputs][inputs][3][3]; strides in elements. `rotated`: taps in opposite order.
// What images and weights point to is of the loops' element type.
typedef struct rungi_wino_weight {
    const void *data;
    int64_t out, in;
    int64_t out_stride, in_stride;
    bool rotated;
} rungi_wino_weight;

// Points [6 * begin, 6 * end) of the 36.
typedef struct rungi_wino_lines {
    int begin, end;
} rungi_wino_lines;

#define RUNGI_WINO_ALL ((rungi_wino_lines){0, 6})

// What becomes of a pixel once it is computed: + bias, the largest of 2x2, ReLU.
typedef struct rungi_wino_store {
    const void *bias; // may be NULL
    bool relu;
    bool add;       // to y; not with pooling
    bool pool;      // y has the largest of each 2x2 pixels, as max_pool2d has it
    uint8_t *index; // their places, 0 to 3; may be NULL
    void *y;
    // Sums by channel of y (ops/channel_sums.h) and values of each part; NULL: not wanted. Not with
    // pooling, and in float32 alone.
    float *sums, *counts;
} rungi_wino_store;

// Where an image's pixels come from.
typedef struct rungi_wino_source {
    const void *data;
    // Float32: the gradient of max_pool2d's output of 2x2 pixels of the image: a pixel is that of
    // its window where its place, 0 to 3, is that of the window, else 0. NULL: the image itself.
    const uint8_t *places, *places_end;
    const float *gate; // gradients alone: 0 where this is not positive; NULL: nowhere
} rungi_wino_source;

// Loops, compiled once per instruction set.
typedef struct rungi_wino_loops {
    int lanes;
    int tile;                        // pixels of an output tile's side: 4, or 2
    int pack;                        // channels in a word
    bool halves;                     // `multiply` can leave out half of a row's last vector
    int (*panel_count)(int vectors); // into how many panels a row is cut
    // V of tiles [first, first + count), to row 0 and on, of some points (bf16: of all). `zeros`:
    // image->c elements.
    void (*input)(const rungi_wino_image *image, const rungi_wino_source *x, const void *zeros,
                  int64_t first, int64_t count, const rungi_wino_rows *rows, rungi_wino_lines lines,
                  float *v);
    // Z of the same tiles of dy, to row `row` and on; Z has chunks of outputs, `chunk_stride`
    // floats apart, of which `panels` describes a whole one. Adds the pixels' sums to sums[outputs,
    // rounded up to vectors] where that is not NULL.
    void (*gradient)(const rungi_wino_image *image, const rungi_wino_source *dy, const float *zeros,
                     int64_t first, int64_t count, const rungi_wino_panels *panels,
                     int64_t chunk_stride, int64_t row, rungi_wino_lines lines, float *z,
                     float *sums);
    // U of inputs [in_begin, in_end), which become rows `row` and on, and the panels' vectors,
    // which begin at output `out_begin`. Only the last inputs may leave a word unfilled.
    void (*weights)(const rungi_wino_weight *weight, int64_t out_begin, int64_t in_begin,
                    int64_t in_end, const rungi_wino_panels *panels, int64_t row, float *u);
    // c[r] = or += sum over k in [k_begin, k_end) of a[r * row_stride + k * k_stride] * panels[k]
    void (*multiply)(const rungi_wino_panels *panels, int64_t k_begin, int64_t k_end, int64_t rows,
                     const void *a, int64_t row_stride, int64_t k_stride, const void *b, float *c,
                     int64_t c_stride, bool add);
    // y of tiles [first, first + count) and outputs [begin, end) from M, whose planes have rows of
    // `width` floats that begin with output `begin`. `image` is that before pooling. Where sums are
    // wanted a part's tiles come in their order, in one call or several.
    void (*output)(const rungi_wino_image *image, const float *m, int64_t plane, int64_t width,
                   int64_t first, int64_t count, int64_t begin, int64_t end,
                   const rungi_wino_store *to);
    // dg[o][c], or with `add` what is added to it, of inputs [in_begin, in_end) and outputs
    // [out_begin, out_end) from `parts` D's, each `part` floats after the other, whose rows are
    // inputs from in_first on and columns outputs from out_begin on.
    void (*finish)(const float *d, int64_t plane, int64_t width, int parts, int64_t part,
                   int64_t in_first, int64_t in_begin, int64_t in_end, int64_t out_begin,
                   int64_t out_end, int64_t inputs, bool add, float *dg);
} rungi_wino_loops;

extern const rungi_wino_loops rungi_wino_loops_plain;
#if defined(__x86_64__)
extern const rungi_wino_loops rungi_wino_loops_avx2, rungi_wino_loops_avx512;
#endif

const rungi_wino_loops *rungi_wino_loops_for(rung_isa isa);

// Is a 2x2 max_pool2d fused to the query; the source of the gradient of the convolution's output.
bool rungi_wino_pools(const rungi_query *q);
rungi_wino_source rungi_wino_gradient_of(const rungi_call *c);
// Backward: can it be read where it lies?
bool rungi_wino_takes_gradient(const rungi_query *q, rungi_reason *why);

// Can a Winograd kernel do this pass at all: shapes, layouts, the switch. Types are the kernel's to
// look at.
bool rungi_wino_can_run(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                        rungi_reason *why);
// The same of forward, with what is fused to it.
bool rungi_wino_can_run_forward(const rungi_query *q, rungi_reason *why);
// Is it faster than a direct convolution for these channels?
bool rungi_wino_pays(const rungi_query *q);

// Operations that a Winograd kernel with tiles of that side executes, transforms included.
double rungi_wino_flops(const rungi_query *q, int tile);

rungi_wino_image rungi_wino_image_of(const rungi_operand *image, const rungi_operand *outputs,
                                     int tile, int64_t pad);

// Panels for rows of `columns` floats, and `depth` rows.
rungi_wino_panels rungi_wino_panels_of(const rungi_wino_loops *loops, int64_t columns,
                                       int64_t depth);
// The same for the last of several chunks, whose rows may be shorter: what lies in their place.
rungi_wino_panels rungi_wino_panels_cut(const rungi_wino_loops *loops,
                                        const rungi_wino_panels *panels, int64_t columns);

// A row's width for n floats: at least n, such that neighbouring rows fall into different sets of
// the first cache.
int64_t rungi_wino_width(int64_t n, int lanes);
// Floats of a plane of that many: planes do not lie a multiple of 4096 bytes apart.
int64_t rungi_wino_plane(int64_t floats);

// Vectors in front of panel i; floats in front of vector j of row r.
static inline int rungi_wino_panel_begin(const rungi_wino_panels *p, int i)
{
    return i * p->vectors / p->count;
}

static inline int64_t rungi_wino_panel_at(const rungi_wino_panels *p, int64_t row, int j)
{
    int i = ((j + 1) * p->count - 1) / p->vectors;
    int begin = rungi_wino_panel_begin(p, i), width = rungi_wino_panel_begin(p, i + 1) - begin;
    return (p->depth * begin + row * width + (j - begin)) * p->lanes;
}

static inline int64_t rungi_wino_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rungi_wino_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Hands out pieces of a workspace, each at a multiple of 64 bytes; counts only where `at` is NULL.
typedef struct rungi_wino_space {
    char *at;
    size_t used;
} rungi_wino_space;

static inline float *rungi_wino_take(rungi_wino_space *space, int64_t floats)
{
    float *piece = space->at ? (float *)(void *)(space->at + space->used) : NULL;
    space->used += ((size_t)floats * sizeof(float) + 127) / 64 * 64;
    return piece;
}

// The end of a kernel's `create`: hands over its state and asks for the workspace that was counted.
static inline rung_status rungi_wino_created(rungi_setup *setup, void *state,
                                             const rungi_wino_space *space)
{
    setup->state = state;
    setup->workspace = space->used;
    return RUNG_OK;
}

// Forward and the gradient of the input, of which q->pass says the one: a state, freed by `free`,
// and a run.
rung_status rungi_wino_create(const rungi_query *q, const rungi_wino_loops *loops,
                              rungi_setup *setup);
rung_status rungi_wino_run(const rungi_call *c);
// Forward in float32: parts of the sums by channel.
int64_t rungi_wino_sum_parts(const rungi_query *q);

extern const rungi_kernel rungi_conv2d_forward_winograd, rungi_conv2d_data_winograd,
    rungi_conv2d_weight_winograd;

#endif
