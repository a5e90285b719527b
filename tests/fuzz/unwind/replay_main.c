/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Runs a fuzz entry point over the files of a directory, under any compiler: each as it is, cut at each
 * length, and with some reproducible damage. Prints one TAP line. Zone: tests.
 */
#include <dirent.h>

#include "tests/fuzz/unwind/fuzz.h"

#define MAX_FILE 65536
#define N_DAMAGED 300

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t replay(const uint8_t *bytes, size_t size)
{
    static uint8_t copy[MAX_FILE];
    uint64_t random = 0x9e3779b97f4a7c15;
    size_t runs = 1, step = size / 500 + 1;

    LLVMFuzzerTestOneInput(bytes, size);
    for (size_t n = 0; n < size; n += step, runs++)
        LLVMFuzzerTestOneInput(bytes, n);
    for (int i = 0; i < N_DAMAGED && size > 0; i++, runs++) {
        memcpy(copy, bytes, size);
        for (uint64_t k = next_random(&random) % 4 + 1; k > 0; k--)
            copy[next_random(&random) % size] = (uint8_t)next_random(&random);
        LLVMFuzzerTestOneInput(copy, size);
    }
    return runs;
}

int main(int argc, char **argv)
{
    static uint8_t bytes[MAX_FILE];
    size_t files = 0, runs = 0;
    DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        char path[4096];
        FILE *file;
        size_t size;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
        file = fopen(path, "rb");
        if (!file)
            continue;
        size = fread(bytes, 1, sizeof(bytes), file);
        fclose(file);
        runs += replay(bytes, size);
        files++;
    }
    if (dir)
        closedir(dir);
    printf("1..1\n%sok 1 - %zu files, %zu runs\n", files == 0 ? "not " : "", files, runs);
    return files == 0;
}
