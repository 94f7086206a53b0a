// SPDX-License-Identifier: Apache-2.0
#include "base/philox.h"

#include <math.h>

rungi_philox4 rungi_philox(const uint32_t key[2], const uint32_t counter[4])
{
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53 * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
    return (rungi_philox4){{c0, c1, c2, c3}};
}

static void fold(rungi_random *random, uint64_t number, uint32_t tag)
{
    uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), tag, 0x72756E67};
    rungi_philox4 block = rungi_philox(random->key, counter);
    random->key[0] = block.v[0];
    random->key[1] = block.v[1];
}

rungi_random rungi_random_make(uint64_t seed, rungi_purpose purpose, uint64_t a, uint64_t b,
                               uint64_t c)
{
    rungi_random random = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    fold(&random, (uint64_t)purpose, 0);
    fold(&random, a, 1);
    fold(&random, b, 2);
    fold(&random, c, 3);
    return random;
}

rungi_philox4 rungi_random_block(const rungi_random *random, uint64_t index)
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0};
    return rungi_philox(random->key, counter);
}

uint64_t rungi_random_u64(const rungi_random *random, uint64_t index)
{
    rungi_philox4 block = rungi_random_block(random, index);
    return (uint64_t)block.v[1] << 32 | block.v[0];
}

uint64_t rungi_random_below(const rungi_random *random, uint64_t n, uint64_t *index)
{
    uint64_t reject = -n % n;
    for (;;) {
        unsigned __int128 product = (unsigned __int128)rungi_random_u64(random, (*index)++) * n;
        if ((uint64_t)product >= reject)
            return (uint64_t)(product >> 64);
    }
}

double rungi_random_normal(const rungi_random *random, uint64_t index)
{
    rungi_philox4 block = rungi_random_block(random, index);
    // u in (0, 1], so that its logarithm is finite
    double u = 1.0 - rungi_unit_f64((uint64_t)block.v[1] << 32 | block.v[0]);
    double v = rungi_unit_f64((uint64_t)block.v[3] << 32 | block.v[2]);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}
