// SPDX-License-Identifier: Apache-2.0
// How the elements of an image tensor [N, C, H, W] lie in memory. All other tensors are plain.
#ifndef RUNGI_OPS_LAYOUT_H
#define RUNGI_OPS_LAYOUT_H

#include <stdint.h>

#include "rung/tensor.h"

typedef enum rungi_layout {
    RUNGI_PLAIN,         // row-major: N, C, H, W
    RUNGI_CHANNELS_LAST, // N, H, W, C
    RUNGI_BLOCKED8,      // N, C/8, H, W, 8; only where 8 divides C
    RUNGI_BLOCKED16,     // N, C/16, H, W, 16; only where 16 divides C
} rungi_layout;

// "plain", "channels_last", "blocked8", "blocked16".
const char *rungi_layout_name(rungi_layout layout);

// Strides of a layout. Channel c of image n at (y, x) lies at
// n*n_ + (c / block)*cb + (c % block)*c_ + y*h + x*w.
typedef struct rungi_strides {
    int64_t n, cb, c, h, w;
    int block;
} rungi_strides;

static inline rungi_strides rungi_strides_of(rungi_layout layout, const rung_shape *s)
{
    int64_t C = s->dim[1], H = s->dim[2], W = s->dim[3];
    switch (layout) {
    case RUNGI_CHANNELS_LAST:
        return (rungi_strides){H * W * C, 0, 1, W * C, C, (int)(C > 0 ? C : 1)};
    case RUNGI_BLOCKED8:
    case RUNGI_BLOCKED16: {
        int block = layout == RUNGI_BLOCKED8 ? 8 : 16;
        return (rungi_strides){C * H * W, H * W * block, 1, W * block, block, block};
    }
    default:
        return (rungi_strides){C * H * W, H * W, 0, W, 1, 1};
    }
}

static inline int64_t rungi_at(const rungi_strides *s, int64_t n, int64_t c, int64_t y, int64_t x)
{
    return n * s->n + c / s->block * s->cb + c % s->block * s->c + y * s->h + x * s->w;
}

#endif
