/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A small ELF64 file made by hand: every header field is there to be spoiled.
 * Zone: tests.
 */
#ifndef TESTS_UNIT_UNWIND_ELF_BUILDER_H
#define TESTS_UNIT_UNWIND_ELF_BUILDER_H

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/elf.h"

#define BUILT_SYMBOLS 8

struct built_note {
    Elf64_Nhdr header;
    char name[4];
    uint8_t desc[20];
};

enum { SEC_NULL, SEC_NOTE, SEC_EH_FRAME, SEC_SYMTAB, SEC_STRTAB, SEC_DYNSYM, SEC_DYNSTR, SEC_NAMES, SEC_N };

/* Segment 0 maps all of it at VADDR. */
#define BUILT_VADDR 0x10000

struct built_elf {
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdr[3]; /* PT_LOAD, PT_NOTE, PT_GNU_EH_FRAME */
    Elf64_Shdr shdr[SEC_N];
    struct built_note note;
    uint8_t eh_frame[32], eh_frame_hdr[16];
    Elf64_Sym symtab[BUILT_SYMBOLS], dynsym[BUILT_SYMBOLS];
    char strtab[64], dynstr[32], names[64];
};

#define BUILT_AT(member) offsetof(struct built_elf, member)

static inline void built_section(struct built_elf *b, unsigned index, const char *name, uint32_t type,
                                 size_t offset, size_t size)
{
    size_t at = 1;

    while (b->names[at] != '\0')
        at += strlen(b->names + at) + 1;
    strcpy(b->names + at, name);
    b->shdr[index] = (Elf64_Shdr){.sh_name = (uint32_t)at,
                                  .sh_type = type,
                                  .sh_flags = SHF_ALLOC,
                                  .sh_addr = BUILT_VADDR + offset,
                                  .sh_offset = offset,
                                  .sh_size = size,
                                  .sh_addralign = 4};
}

static inline void built_init(struct built_elf *b)
{
    memset(b, 0, sizeof(*b));
    memcpy(b->ehdr.e_ident, ELFMAG, SELFMAG);
    b->ehdr.e_ident[EI_CLASS] = ELFCLASS64;
    b->ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
    b->ehdr.e_type = ET_DYN;
    b->ehdr.e_machine = EM_X86_64;
    b->ehdr.e_phoff = BUILT_AT(phdr);
    b->ehdr.e_phentsize = sizeof(Elf64_Phdr);
    b->ehdr.e_phnum = 3;
    b->ehdr.e_shoff = BUILT_AT(shdr);
    b->ehdr.e_shentsize = sizeof(Elf64_Shdr);
    b->ehdr.e_shnum = SEC_N;
    b->ehdr.e_shstrndx = SEC_NAMES;
    b->phdr[0] = (Elf64_Phdr){.p_type = PT_LOAD,
                              .p_vaddr = BUILT_VADDR,
                              .p_filesz = sizeof(*b),
                              .p_memsz = sizeof(*b),
                              .p_align = 4096};
    b->phdr[1] = (Elf64_Phdr){.p_type = PT_NOTE,
                              .p_vaddr = BUILT_VADDR + BUILT_AT(note),
                              .p_offset = BUILT_AT(note),
                              .p_filesz = sizeof(b->note),
                              .p_memsz = sizeof(b->note),
                              .p_align = 4};
    b->phdr[2] = (Elf64_Phdr){.p_type = PT_GNU_EH_FRAME,
                              .p_vaddr = BUILT_VADDR + BUILT_AT(eh_frame_hdr),
                              .p_offset = BUILT_AT(eh_frame_hdr),
                              .p_filesz = 16,
                              .p_memsz = 16};
    b->note = (struct built_note){{4, 20, NT_GNU_BUILD_ID}, "GNU", {0}};
    for (size_t i = 0; i < 20; i++)
        b->note.desc[i] = (uint8_t)(0xa0 + i);
    built_section(b, SEC_NOTE, ".note.gnu.build-id", SHT_NOTE, BUILT_AT(note), sizeof(b->note));
    built_section(b, SEC_EH_FRAME, ".eh_frame", SHT_PROGBITS, BUILT_AT(eh_frame), sizeof(b->eh_frame));
    built_section(b, SEC_SYMTAB, ".s", SHT_SYMTAB, BUILT_AT(symtab), sizeof(b->symtab));
    built_section(b, SEC_STRTAB, ".t", SHT_STRTAB, BUILT_AT(strtab), sizeof(b->strtab));
    built_section(b, SEC_DYNSYM, ".d", SHT_DYNSYM, BUILT_AT(dynsym), sizeof(b->dynsym));
    built_section(b, SEC_DYNSTR, ".e", SHT_STRTAB, BUILT_AT(dynstr), sizeof(b->dynstr));
    built_section(b, SEC_NAMES, ".n", SHT_STRTAB, BUILT_AT(names), sizeof(b->names));
    b->shdr[SEC_SYMTAB].sh_entsize = b->shdr[SEC_DYNSYM].sh_entsize = sizeof(Elf64_Sym);
    b->shdr[SEC_SYMTAB].sh_link = SEC_STRTAB;
    b->shdr[SEC_DYNSYM].sh_link = SEC_DYNSTR;
}

struct bytes {
    const void *bytes;
    size_t size;
};

static inline bool bytes_read(void *context, uint64_t offset, void *to, size_t size)
{
    const struct bytes *b = context;

    /* A reader may add the two without looking. */
    if (offset + size < offset)
        abort();
    if (offset > b->size || size > b->size - offset)
        return false;
    memcpy(to, (const uint8_t *)b->bytes + offset, size);
    return true;
}

#endif
