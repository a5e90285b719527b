/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An ELF file laid out in memory as a loader would do it, at bias 0, to unwind in without running it.
 * Zone: tests.
 */
#ifndef TESTS_UNIT_UNWIND_FILE_IMAGE_H
#define TESTS_UNIT_UNWIND_FILE_IMAGE_H

#include "unwind/elf.h"
#include "unwind/unwind.h"

struct file_image {
    const uint8_t *bytes; /* the file */
    size_t size;
    uint8_t *memory; /* its segments, at their virtual addresses */
    size_t memory_size;
    struct elf_image image;
    struct elf_file file;
    struct uw_module module;
    struct uw_space space; /* read_stack: unreadable */
    struct elf_reader file_reader;
};

/* False, with a line on stderr, if the file cannot be read. */
bool file_image_open(struct file_image *ret, const char *path);
void file_image_close(struct file_image *image);

#endif
