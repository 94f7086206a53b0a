// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer: on each file of a folder, and on changed copies of it. The
// changes are the same each time.
#include <dirent.h>

#include "fuzz.h"

enum { CHANGES = 300, SIZE_MAX_READ = 1 << 20 };

static uint64_t random_state = 1;

// splitmix64
static uint64_t draw(uint64_t below)
{
    uint64_t z = random_state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % below;
}

static void run_changed(const uint8_t *good, size_t size)
{
    for (int i = 0; i < CHANGES; i++) {
        // Of its exact size on the heap, so that the address sanitizer sees each overrun.
        size_t length = i % 3 == 0 ? draw(size + 1) : size;
        uint8_t *copy = malloc(length + 1);
        FUZZ_CHECK(copy);
        uint8_t *exact = copy + 1;
        memcpy(exact, good, length);
        int changes = length ? (int)draw(4) : 0;
        for (int c = 0; c < changes; c++) {
            // Headers matter more than data.
            size_t where = draw(2) && length > 64 ? draw(64) : draw(length);
            exact[where] = draw(2) ? (uint8_t)draw(256) : good[draw(size)];
        }
        LLVMFuzzerTestOneInput(exact, length);
        free(copy);
    }
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(SIZE_MAX_READ);
    FUZZ_CHECK(f && data);
    size_t size = fread(data, 1, SIZE_MAX_READ, f);
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    run_changed(data, size);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int files = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        for (struct dirent *entry; dir && (entry = readdir(dir));) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            if (entry->d_name[0] != '.')
                files += run_file(path);
        }
        if (dir)
            closedir(dir);
        else
            files += run_file(argv[i]);
    }
    printf("%d files, each with %d changes\n", files, CHANGES);
    return files ? 0 : 1;
}
