// SPDX-License-Identifier: Apache-2.0
#include "nn/init.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/philox.h"

rung_status rungi_init_fans(const rung_shape *shape, int64_t *fan_in_out, int64_t *fan_out_out)
{
    char text[RUNG_SHAPE_TEXT];
    RUNG_CHECK(shape->rank >= 2, RUNG_MISMATCH,
               "a parameter of shape %s has no fan in and fan out (they need two dimensions)",
               rung_shape_text(shape, text, sizeof text));
    int64_t field = 1, fan_in, fan_out;
    bool fits = true;
    for (int i = 2; i < shape->rank; i++)
        fits = fits && rungi_i64_mul(field, shape->dim[i], &field);
    fits = fits && rungi_i64_mul(shape->dim[1], field, &fan_in) &&
           rungi_i64_mul(shape->dim[0], field, &fan_out);
    RUNG_CHECK(fits, RUNG_MISMATCH, "a parameter of shape %s is too large",
               rung_shape_text(shape, text, sizeof text));
    *fan_in_out = fan_in;
    *fan_out_out = fan_out;
    return RUNG_OK;
}

static double polynomial(const double *c, double x)
{
    double sum = c[7];
    for (int i = 6; i >= 0; i--)
        sum = sum * x + c[i];
    return sum;
}

// The centre, |p - 1/2| <= 0.425: 17 of 20 draws.
static double quantile_centre(double q)
{
    static const double a[8] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e+1,
                                6.8718700749205790830e+2,
                                5.3941960214247511077e+3,
                                2.1213794301586595867e+4,
                                3.9307895800092710610e+4,
                                2.8729085735721942674e+4,
                                5.2264952788528545610e+3};
    double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
}

// The tails; `p` is the smaller one of p and 1 - p.
static double quantile_tail(double p)
{
    static const double c[8] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                5.76949722146069140550e0,  3.64784832476320460504e0,
                                1.27045825245236838258e0,  2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                1.78482653991729133580e0,  2.96560571828504891230e-1,
                                2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    double r = sqrt(-log(p));
    return r <= 5 ? polynomial(c, r - 1.6) / polynomial(d, r - 1.6)
                  : polynomial(e, r - 5) / polynomial(f, r - 5);
}

// Quantiles of many probabilities: the centre's formula for all in one loop that vectorizes, then
// the tails.
static void quantiles(const double *p, double *out, int count)
{
    for (int i = 0; i < count; i++)
        out[i] = quantile_centre(p[i] - 0.5);
    for (int i = 0; i < count; i++) {
        double q = p[i] - 0.5;
        if (fabs(q) > 0.425)
            out[i] = q < 0 ? -quantile_tail(p[i]) : quantile_tail(1 - p[i]);
    }
}

double rungi_normal_quantile(double p)
{
    double out;
    quantiles(&p, &out, 1);
    return out;
}

static double normal_cdf(double x)
{
    return erfc(-x / sqrt(2)) / 2;
}

// What the elements are: a constant; offset + scale * u, u uniform in [0, 1); or
// offset + scale * quantile(from + width * u), u uniform in (0, 1).
typedef struct distribution {
    bool uniform, normal;
    double offset, scale;
    double from, width;
    float low, high;
} distribution;

static distribution uniform_within(double bound)
{
    return (distribution){.uniform = true, .offset = -bound, .scale = 2 * bound};
}

static distribution normal_of(double mean, double std)
{
    return (distribution){.normal = true,
                          .offset = mean,
                          .scale = std,
                          .width = 1,
                          .low = -INFINITY,
                          .high = INFINITY};
}

static rung_status trunc_normal(const rung_init *init, distribution *out)
{
    RUNG_CHECK(init->b > 0 && init->low < init->high, RUNG_INVALID,
               "trunc_normal: standard deviation %g, bounds [%g, %g]", init->b, init->low,
               init->high);
    *out = normal_of(init->a, init->b);
    out->from = normal_cdf((init->low - init->a) / init->b);
    out->width = normal_cdf((init->high - init->a) / init->b) - out->from;
    RUNG_CHECK(out->width > 1e-6, RUNG_INVALID,
               "trunc_normal: bounds [%g, %g] lie too far from the mean %g", init->low, init->high,
               init->a);
    out->low = (float)init->low;
    out->high = (float)init->high;
    return RUNG_OK;
}

static rung_status by_fans(const rung_init *init, const rung_shape *shape, distribution *out)
{
    int64_t fan_in, fan_out;
    RUNG_TRY(rungi_init_fans(shape, &fan_in, &fan_out));
    double in = (double)(fan_in > 0 ? fan_in : 1), both = (double)fan_in + (double)fan_out;
    switch (init->kind) {
    case RUNG_INIT_KAIMING_UNIFORM:
        *out = uniform_within(sqrt(3) * (sqrt(2 / (1 + init->a * init->a)) / sqrt(in)));
        break;
    case RUNG_INIT_KAIMING_NORMAL:
        *out = normal_of(0, sqrt(2) / sqrt((double)(fan_out > 0 ? fan_out : 1)));
        break;
    case RUNG_INIT_XAVIER_UNIFORM:
        *out = uniform_within(sqrt(3) * (init->a * sqrt(2 / (both > 0 ? both : 1))));
        break;
    default:
        *out = normal_of(0, init->a * sqrt(2 / (both > 0 ? both : 1)));
        break;
    }
    return RUNG_OK;
}

static rung_status distribution_of(const rung_init *init, const rung_shape *shape,
                                   distribution *out)
{
    switch (init->kind) {
    case RUNG_INIT_ZEROS:
        *out = (distribution){0};
        return RUNG_OK;
    case RUNG_INIT_ONES:
        *out = (distribution){.offset = 1};
        return RUNG_OK;
    case RUNG_INIT_CONSTANT:
        *out = (distribution){.offset = init->a};
        return RUNG_OK;
    case RUNG_INIT_UNIFORM:
        *out = (distribution){.uniform = true, .offset = init->a, .scale = init->b - init->a};
        return RUNG_OK;
    case RUNG_INIT_NORMAL:
        *out = normal_of(init->a, init->b);
        return RUNG_OK;
    case RUNG_INIT_TRUNC_NORMAL:
        return trunc_normal(init, out);
    case RUNG_INIT_FAN_IN:
        *out = uniform_within(init->fan > 0 ? 1 / sqrt((double)init->fan) : 0);
        return RUNG_OK;
    default:
        return by_fans(init, shape, out);
    }
}

// Elements are made in chunks that begin at multiples of their size; element i comes from word
// i % 4 of block i / 4.
enum { CHUNK = 256 };

static void make_chunk(const distribution *d, const rungi_random *random, int64_t chunk, float *out)
{
    uint32_t words[CHUNK];
    for (int i = 0; i < CHUNK; i += 4) {
        rungi_philox4 block = rungi_random_block(random, (uint64_t)(chunk * CHUNK + i) / 4);
        memcpy(words + i, block.v, sizeof block.v);
    }
    if (d->uniform) {
        for (int i = 0; i < CHUNK; i++)
            out[i] = (float)(d->offset + d->scale * (double)rungi_unit_f32(words[i]));
        return;
    }
    double p[CHUNK], z[CHUNK];
    for (int i = 0; i < CHUNK; i++)
        p[i] = d->from + d->width * (((double)words[i] + 0.5) * 0x1p-32);
    quantiles(p, z, CHUNK);
    for (int i = 0; i < CHUNK; i++) {
        float x = (float)(d->offset + d->scale * z[i]);
        x = x < d->low ? d->low : x;
        out[i] = x > d->high ? d->high : x;
    }
}

// Writes the part of a chunk that lies in [first, first + count).
static void fill_chunk(const distribution *d, const rungi_random *random, int64_t chunk,
                       int64_t first, int64_t count, float *out)
{
    int64_t begin = chunk * CHUNK, end = begin + CHUNK;
    if (begin >= first && end <= first + count) {
        make_chunk(d, random, chunk, out + (begin - first));
        return;
    }
    float part[CHUNK];
    make_chunk(d, random, chunk, part);
    int64_t from = begin > first ? begin : first;
    int64_t to = end < first + count ? end : first + count;
    memcpy(out + (from - first), part + (from - begin), (size_t)(to - from) * sizeof *out);
}

rung_status rungi_init_fill(const rung_init *init, const rung_shape *shape, uint64_t seed,
                            uint64_t parameter, int64_t first, int64_t count, int threads,
                            float *out)
{
    distribution d;
    int64_t all;
    RUNG_TRY(rung_shape_count(shape, &all));
    RUNG_CHECK(first >= 0 && count >= 0 && first <= all && count <= all - first, RUNG_INVALID,
               "initial values [%lld, +%lld) of a parameter of %lld", (long long)first,
               (long long)count, (long long)all);
    RUNG_TRY(distribution_of(init, shape, &d));
    if (!d.uniform && !d.normal) {
        for (int64_t i = 0; i < count; i++)
            out[i] = (float)d.offset;
        return RUNG_OK;
    }
    rungi_random random = rungi_random_make(seed, RUNGI_PURPOSE_INIT, parameter, 0, 0);
    int64_t from = first / CHUNK, to = count ? (first + count - 1) / CHUNK + 1 : from;
    int team = threads > 1 && to - from >= 64 ? threads : 1;
    (void)team;
#pragma omp parallel for schedule(static) num_threads(team)
    for (int64_t chunk = from; chunk < to; chunk++)
        fill_chunk(&d, &random, chunk, first, count, out);
    return RUNG_OK;
}
