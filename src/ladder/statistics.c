// SPDX-License-Identifier: Apache-2.0
#include "ladder/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALLEST_CHANGE 0.01

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double rungi_median(const double *values, size_t n)
{
    double sorted[1024];
    if (n > 1024)
        n = 1024;
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double rungi_student_95(size_t degrees)
{
    // Published tables; beyond them the expansion of Cornish and Fisher around the normal quantile.
    static const double table[] = {0,     12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                   2.306, 2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
                                   2.120, 2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069,
                                   2.064, 2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    if (degrees < sizeof table / sizeof *table)
        return table[degrees];
    double z = 1.959964, d = (double)degrees;
    return z + (z * z * z + z) / (4 * d) + (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * d * d);
}

static void mean_and_deviation(const double *values, size_t n, double *mean, double *deviation)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - *mean) * (values[i] - *mean);
    *deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

rungi_gain rungi_gain_of(const double *before, const double *after, size_t n)
{
    double ratios[1024], logs[1024], mean, deviation;
    if (n > 1024)
        n = 1024;
    for (size_t i = 0; i < n; i++) {
        ratios[i] = before[i] / after[i];
        logs[i] = log(ratios[i]);
    }
    mean_and_deviation(logs, n, &mean, &deviation);
    double half = rungi_student_95(n - 1) * deviation / sqrt((double)n);
    return (rungi_gain){rungi_median(ratios, n), exp(mean - half), exp(mean + half)};
}

rung_verdict rungi_verdict_of(const rungi_gain *gain)
{
    if (gain->low > 1 + SMALLEST_CHANGE)
        return RUNG_VERDICT_KEPT;
    if (gain->high < 1 - SMALLEST_CHANGE)
        return RUNG_VERDICT_SLOWER;
    return RUNG_VERDICT_NO_CLEAR_CHANGE;
}

double rungi_prediction_margin(const double *values, size_t n)
{
    double mean, deviation;
    mean_and_deviation(values, n, &mean, &deviation);
    return rungi_student_95(n - 1) * deviation * sqrt(1 + 1 / (double)n);
}
