/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The few facts about an ELF64 image that unwinding and naming need, read through a callback from memory or
 * from a file. Every field of the image is hostile: bounds are checked before use.
 * Zone: pure.
 */
#ifndef UNWIND_ELF_H
#define UNWIND_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind.h"

#define ELF_BUILD_ID_MAX 64

/*
 * All size bytes at offset, or false. Offset counts from the ELF header (image in memory: run-time layout).
 */
struct elf_reader {
    void *context;
    bool (*read)(void *context, uint64_t offset, void *to, size_t size);
};

enum elf_status {
    ELF_OK = 0,
    ELF_NOT_ELF,   /* no ELF header, or not a 64-bit little-endian one */
    ELF_MALFORMED, /* a header points outside its bounds or counts are absurd */
    ELF_UNREADABLE,
    ELF_STATUS_N
};

/* What the program headers of a loaded image say. */
struct elf_image {
    uint64_t bias;                            /* run-time address minus ELF virtual address */
    uint64_t start, end;                      /* run-time range of all PT_LOAD segments, page-aligned */
    uint64_t eh_frame_hdr, eh_frame_hdr_size; /* run-time address; size 0: none */
    uint8_t build_id[ELF_BUILD_ID_MAX];
    size_t build_id_size; /* 0: none */
    uint16_t machine;     /* EM_* */
    uint16_t type;        /* ET_EXEC, ET_DYN, ... */
};

/*
 * elf_read_image() - read an image that is mapped at @base (where its ELF header is)
 * @reader: offsets are run-time addresses minus @base
 */
enum elf_status elf_read_image(const struct elf_reader *reader, uint64_t base, struct elf_image *ret_image);

/* A symbol table with its string table, as file offsets. count 0: there is none. */
struct elf_symbol_table {
    uint64_t symbols, count;
    uint64_t strings, strings_size;
};

/* What the section and program headers of a file say. */
struct elf_file {
    struct elf_symbol_table symtab, dynsym;
    uint64_t eh_frame, eh_frame_size; /* ELF virtual address of .eh_frame; size 0: none */
    uint8_t build_id[ELF_BUILD_ID_MAX];
    size_t build_id_size;
};

/* elf_read_file() - read the headers of a whole file; offsets are file offsets */
enum elf_status elf_read_file(const struct elf_reader *reader, struct elf_file *ret_file);

#endif
