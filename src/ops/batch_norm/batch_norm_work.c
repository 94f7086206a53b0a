// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_norm/batch_norm_work.h"

#include "ops/channel_sums.h"

enum {
    FIRST_ROWS = 16,
    TILE = 16,               // groups of a tile at most, where a group is one channel
    TILE_VALUES = 64 * 1024, // values of a tile aimed at, so that the second sweep finds it cached
    // Values of 16 bits that are copied together, up to three or four arrays of them: the copies
    // stay in the first cache.
    SUMS = 2048,
    VALUES = 512,
    SUMMED = 32, // rows that the loops sum in float32: with multiples of it nothing shows
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

rungi_bn_cut rungi_bn_cut_of(const rungi_operand *x)
{
    rungi_bn_cut cut = {.form = rungi_bn_form_of(x), .tile = 1};
    bool runs = cut.form.lanes == 1;
    int64_t least = runs ? 2048 : 128, parts = runs ? 32 : 64;
    cut.total = rungi_bn_count(&cut.form);
    cut.chunk = ceil_div(ceil_div(cut.total, parts), 32) * 32;
    if (cut.chunk < least)
        cut.chunk = least;
    cut.chunks = ceil_div(cut.total, cut.chunk);
    while (runs && cut.tile < TILE && 2 * cut.tile * cut.total <= TILE_VALUES)
        cut.tile *= 2;
    cut.tiles = ceil_div(cut.form.groups, cut.tile);
    return cut;
}

size_t rungi_bn_scratch_bytes(const rungi_bn_cut *cut)
{
    size_t channels = (size_t)rungi_bn_channels(&cut->form), cells = (size_t)cut->chunks * channels;
    return cells * (2 * sizeof(double) + sizeof(float)) + RUNGI_BN_FIRST * sizeof(double) +
           channels * (2 * sizeof(double) + RUNGI_BN_NUMBERS * sizeof(float));
}

rungi_bn_scratch rungi_bn_scratch_of(const rungi_bn_cut *cut, void *workspace)
{
    int64_t channels = rungi_bn_channels(&cut->form), cells = cut->chunks * channels;
    rungi_bn_scratch s = {.s1 = workspace};
    s.s2 = s.s1 + cells;
    s.numbers = s.s2 + cells;
    s.mean = s.numbers + RUNGI_BN_FIRST;
    s.var = s.mean + channels;
    s.shift = (float *)(s.var + channels);
    for (int i = 0; i < RUNGI_BN_NUMBERS; i++)
        s.number[i] = s.shift + cells + i * channels;
    return s;
}

// ---- pieces -----------------------------------------------------------------------------------

rungi_bn_walk rungi_bn_walk_of(const rungi_bn_cut *cut, int64_t chunk, int64_t tile)
{
    rungi_bn_walk w = {.cut = cut, .chunk = chunk, .row = chunk * cut->chunk};
    w.end = w.row + cut->chunk < cut->total ? w.row + cut->chunk : cut->total;
    w.first = w.group = tile * cut->tile;
    w.last = w.first + cut->tile < cut->form.groups ? w.first + cut->tile : cut->form.groups;
    return w;
}

bool rungi_bn_next(rungi_bn_walk *w, rungi_bn_piece *piece)
{
    const rungi_bn_form *f = &w->cut->form;
    if (w->row >= w->end)
        return false;
    int64_t rows = f->rows - w->row % f->rows;
    piece->rows = rows < w->end - w->row ? rows : w->end - w->row;
    piece->at = rungi_bn_at(f, w->group, w->row);
    piece->channel = w->group * f->lanes;
    piece->cell = w->chunk * rungi_bn_channels(f) + piece->channel;
    if (++w->group == w->last) {
        w->group = w->first;
        w->row += piece->rows;
    }
    return true;
}

// ---- values of 16 bits ------------------------------------------------------------------------

rungi_bn_array rungi_bn_array_of(const rungi_call *c, const rungi_operand *o)
{
    return (rungi_bn_array){rungi_ptr(c, o), o->dtype, rungi_half_loops_for(c->q->isa)};
}

int64_t rungi_bn_block(const rungi_bn_array *x, int64_t rows, int64_t lanes, bool sums)
{
    if (!rungi_dtype_is_half(x->dtype))
        return rows;
    int64_t block = sums ? SUMS / lanes / SUMMED * SUMMED : VALUES / lanes;
    if (block < 1)
        block = sums ? least(SUMMED, RUNGI_BN_ROOM / lanes) : 1;
    return least(block, rows);
}

const float *rungi_bn_read(const rungi_bn_array *a, int64_t at, int64_t count, float *room)
{
    if (!a->data)
        return NULL;
    if (!rungi_dtype_is_half(a->dtype))
        return (const float *)a->data + at;
    rungi_widen_of(a->half, a->dtype)((const uint16_t *)a->data + at, room, count);
    return room;
}

float *rungi_bn_target(const rungi_bn_array *a, int64_t at, float *room)
{
    return rungi_dtype_is_half(a->dtype) ? room : (float *)a->data + at;
}

void rungi_bn_write(const rungi_bn_array *a, int64_t at, int64_t count, const float *from)
{
    if (rungi_dtype_is_half(a->dtype))
        rungi_narrow_of(a->half, a->dtype)(from, (uint16_t *)a->data + at, count);
}

void rungi_bn_channels_of(const rungi_bn_cut *cut, int64_t tile, int64_t *begin, int64_t *end)
{
    int64_t channels = rungi_bn_channels(&cut->form), width = cut->tile * cut->form.lanes;
    *begin = tile * width;
    *end = *begin + width < channels ? *begin + width : channels;
}

static int64_t chunk_rows(const rungi_bn_cut *cut, int64_t chunk)
{
    return chunk + 1 < cut->chunks ? cut->chunk : cut->total - chunk * cut->chunk;
}

static void clear(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t chunk, int64_t tile)
{
    int64_t begin, end, cell = chunk * rungi_bn_channels(&cut->form);
    rungi_bn_channels_of(cut, tile, &begin, &end);
    for (int64_t c = begin; c < end; c++)
        s->s1[cell + c] = s->s2[cell + c] = 0;
}

// ---- moments ----------------------------------------------------------------------------------

// The shift of a chunk is the mean of its first 16 rows. These are part of the chunk, so its
// variance is at least 16 / n of the squared distance between shift and mean: taking that distance
// out of the sum of squares loses at most a factor of n / 16 in accuracy, whatever the data.
static void take_shifts(const rungi_bn_cut *cut, const rungi_bn_scratch *s, const rungi_bn_array *x,
                        int64_t chunk, int64_t tile)
{
    rungi_bn_walk w = rungi_bn_walk_of(cut, chunk, tile);
    int64_t lanes = cut->form.lanes;
    float room[RUNGI_BN_ROOM];
    int64_t end = w.row + FIRST_ROWS < w.end ? w.row + FIRST_ROWS : w.end;
    for (int64_t g = w.first; g < w.last; g++) {
        float *shift = s->shift + chunk * rungi_bn_channels(&cut->form) + g * lanes;
        for (int64_t l = 0; l < lanes; l++)
            shift[l] = 0;
        for (int64_t r = w.row; r < end; r++) {
            const float *row = rungi_bn_read(x, rungi_bn_at(&cut->form, g, r), lanes, room);
            for (int64_t l = 0; l < lanes; l++)
                shift[l] += row[l];
        }
        for (int64_t l = 0; l < lanes; l++)
            shift[l] /= (float)(end - w.row);
    }
}

void rungi_bn_take_moments(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                           const rungi_bn_loops *loops, const rungi_bn_array *x, int64_t chunk,
                           int64_t tile)
{
    take_shifts(cut, s, x, chunk, tile);
    clear(cut, s, chunk, tile);
    rungi_bn_walk w = rungi_bn_walk_of(cut, chunk, tile);
    int64_t lanes = cut->form.lanes;
    float room[RUNGI_BN_ROOM];
    for (rungi_bn_piece p; rungi_bn_next(&w, &p);) {
        int64_t block = rungi_bn_block(x, p.rows, lanes, true);
        for (int64_t r = 0; r < p.rows; r += block) {
            int64_t rows = p.rows - r < block ? p.rows - r : block;
            loops->sums(rungi_bn_read(x, p.at + r * lanes, rows * lanes, room), rows, lanes,
                        s->shift + p.cell, s->s1 + p.cell, s->s2 + p.cell);
        }
    }
}

void rungi_bn_merge_moments(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t begin,
                            int64_t end)
{
    int64_t channels = rungi_bn_channels(&cut->form);
    double total = (double)cut->total;
    for (int64_t c = begin; c < end; c++)
        s->mean[c] = s->var[c] = 0;
    // s1 and s2 become the chunk's mean and its sum of squared distances from that.
    for (int64_t k = 0; k < cut->chunks; k++) {
        double n = (double)chunk_rows(cut, k);
        double *s1 = s->s1 + k * channels, *s2 = s->s2 + k * channels;
        const float *shift = s->shift + k * channels;
        for (int64_t c = begin; c < end; c++) {
            double rest = s2[c] - s1[c] * s1[c] / n;
            s2[c] = rest < 0 ? 0 : rest;
            s1[c] = shift[c] + s1[c] / n;
            s->mean[c] += n / total * s1[c];
        }
    }
    for (int64_t k = 0; k < cut->chunks; k++) {
        double n = (double)chunk_rows(cut, k);
        const double *s1 = s->s1 + k * channels, *s2 = s->s2 + k * channels;
        for (int64_t c = begin; c < end; c++) {
            double apart = s1[c] - s->mean[c];
            s->var[c] += (s2[c] + n * apart * apart) / total;
        }
    }
}

void rungi_bn_merge_left(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                         const rungi_bn_left *left, int64_t begin, int64_t end)
{
    int64_t channels = rungi_bn_channels(&cut->form), size = rungi_channel_sums_part(channels);
    const float *counts = left->data + left->parts * size;
    double total = (double)cut->total;
    for (int64_t c = begin; c < end; c++)
        s->mean[c] = s->var[c] = 0;
    for (int64_t k = 0; k < left->parts; k++) {
        const float *shift = left->data + k * size, *s1 = shift + channels;
        double n = (double)counts[k];
        for (int64_t c = begin; c < end; c++)
            s->mean[c] += (n * (double)shift[c] + (double)s1[c]) / total;
    }
    for (int64_t k = 0; k < left->parts; k++) {
        const float *shift = left->data + k * size, *s1 = shift + channels, *s2 = s1 + channels;
        double n = (double)counts[k];
        for (int64_t c = begin; c < end; c++) {
            double own = (double)s1[c] / n, rest = (double)s2[c] - (double)s1[c] * own;
            double apart = (double)shift[c] + own - s->mean[c];
            s->var[c] += ((rest < 0 ? 0 : rest) + n * apart * apart) / total;
        }
    }
}

// ---- gradients --------------------------------------------------------------------------------

rungi_bn_gate rungi_bn_gate_at(const rungi_bn_gates *gates, const rungi_bn_piece *piece, int64_t at,
                               int64_t count, float *room)
{
    const rungi_bn_gate *gate = &gates->gate;
    return (rungi_bn_gate){.y = rungi_bn_read(&gates->y, at, count, room),
                           .scale = gate->scale ? gate->scale + piece->channel : NULL,
                           .bias = gate->bias ? gate->bias + piece->channel : NULL};
}

void rungi_bn_take_gradients(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                             const rungi_bn_loops *loops, const rungi_bn_array *x,
                             const rungi_bn_array *gy, const rungi_bn_gates *gates,
                             const float *mean, int64_t chunk, int64_t tile)
{
    clear(cut, s, chunk, tile);
    rungi_bn_walk w = rungi_bn_walk_of(cut, chunk, tile);
    int64_t lanes = cut->form.lanes;
    float room[3][RUNGI_BN_ROOM];
    for (rungi_bn_piece p; rungi_bn_next(&w, &p);) {
        int64_t block = rungi_bn_block(x, p.rows, lanes, true);
        for (int64_t r = 0; r < p.rows; r += block) {
            int64_t rows = p.rows - r < block ? p.rows - r : block;
            int64_t at = p.at + r * lanes, n = rows * lanes;
            rungi_bn_gate gate = rungi_bn_gate_at(gates, &p, at, n, room[0]);
            loops->grad_sums(rungi_bn_read(x, at, n, room[1]), rungi_bn_read(gy, at, n, room[2]),
                             &gate, rows, lanes, mean + p.channel, s->s1 + p.cell, s->s2 + p.cell);
        }
    }
}

void rungi_bn_merge_gradients(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t begin,
                              int64_t end)
{
    int64_t channels = rungi_bn_channels(&cut->form);
    for (int64_t k = 1; k < cut->chunks; k++)
        for (int64_t c = begin; c < end; c++) {
            s->s1[c] += s->s1[k * channels + c];
            s->s2[c] += s->s2[k * channels + c];
        }
}
