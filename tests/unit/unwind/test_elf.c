/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/elf.c: images and files, real and spoiled.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "tests/unit/unwind/elf_builder.h"
#include "tests/unit/unwind/file_image.h"
#include "unwind/symbols.h"

TestSuite(elf, .timeout = 20);

#define BASE 0x7f0000000000

static struct built_elf b;

static enum elf_status image(struct elf_image *ret)
{
    struct bytes bytes = {&b, sizeof(b)};
    struct elf_reader reader = {&bytes, bytes_read};

    return elf_read_image(&reader, BASE, ret);
}

static enum elf_status file(struct elf_file *ret)
{
    struct bytes bytes = {&b, sizeof(b)};
    struct elf_reader reader = {&bytes, bytes_read};

    return elf_read_file(&reader, ret);
}

Test(elf, image_headers)
{
    struct elf_image i;

    built_init(&b);
    cr_assert(eq(int, image(&i), ELF_OK));

    cr_assert(eq(u64, i.bias, BASE - BUILT_VADDR));
    cr_assert(eq(u64, i.start, BASE));
    cr_assert(eq(u64, i.end, BASE + 0x1000));
    cr_assert(eq(u64, i.eh_frame_hdr, BASE + BUILT_AT(eh_frame_hdr)));
    cr_assert(eq(u64, i.eh_frame_hdr_size, 16));
    cr_assert(eq(sz, i.build_id_size, 20));
    cr_assert(zero(int, memcmp(i.build_id, b.note.desc, 20)));
    cr_assert(eq(u16, i.machine, EM_X86_64));
    cr_assert(eq(u16, i.type, ET_DYN));
}

Test(elf, file_headers)
{
    struct elf_file f;

    built_init(&b);
    cr_assert(eq(int, file(&f), ELF_OK));

    cr_assert(eq(u64, f.symtab.symbols, BUILT_AT(symtab)));
    cr_assert(eq(u64, f.symtab.count, BUILT_SYMBOLS));
    cr_assert(eq(u64, f.symtab.strings, BUILT_AT(strtab)));
    cr_assert(eq(u64, f.symtab.strings_size, 64));
    cr_assert(eq(u64, f.dynsym.symbols, BUILT_AT(dynsym)));
    cr_assert(eq(u64, f.dynsym.strings, BUILT_AT(dynstr)));
    cr_assert(eq(u64, f.eh_frame, BUILT_VADDR + BUILT_AT(eh_frame)));
    cr_assert(eq(u64, f.eh_frame_size, 32));
    cr_assert(eq(sz, f.build_id_size, 20));
}

Test(elf, extended_section_numbers)
{
    struct elf_file f;

    built_init(&b);
    b.ehdr.e_shnum = 0;
    b.ehdr.e_shstrndx = SHN_XINDEX;
    b.shdr[0].sh_size = SEC_N;
    b.shdr[0].sh_link = SEC_NAMES;

    cr_assert(eq(int, file(&f), ELF_OK));
    cr_assert(eq(u64, f.symtab.count, BUILT_SYMBOLS));
    cr_assert(eq(u64, f.eh_frame_size, 32));
    b.shdr[0].sh_size = UINT64_C(1) << 40;
    cr_assert(eq(int, file(&f), ELF_MALFORMED));
}

Test(elf, what_is_not_elf)
{
    struct elf_image i;

    built_init(&b);
    b.ehdr.e_ident[0] = 0;
    cr_assert(eq(int, image(&i), ELF_NOT_ELF));
    built_init(&b);
    b.ehdr.e_ident[EI_CLASS] = ELFCLASS32;
    cr_assert(eq(int, image(&i), ELF_NOT_ELF));
    built_init(&b);
    b.ehdr.e_ident[EI_DATA] = ELFDATA2MSB;
    cr_assert(eq(int, image(&i), ELF_NOT_ELF));
}

Test(elf, images_that_lie)
{
    struct elf_image i;

    built_init(&b);
    b.ehdr.e_phnum = PN_XNUM;
    cr_expect(eq(int, image(&i), ELF_MALFORMED), "too many program headers");
    built_init(&b);
    b.ehdr.e_phentsize = 32;
    cr_expect(eq(int, image(&i), ELF_MALFORMED), "other header size");
    built_init(&b);
    b.ehdr.e_phoff = UINT64_MAX - 8;
    cr_expect(eq(int, image(&i), ELF_UNREADABLE), "headers wrap");
    built_init(&b);
    b.phdr[0].p_memsz = UINT64_MAX;
    cr_expect(eq(int, image(&i), ELF_MALFORMED), "segment wraps");
    built_init(&b);
    b.phdr[0].p_type = PT_NULL;
    cr_expect(eq(int, image(&i), ELF_MALFORMED), "no segment");
    built_init(&b);
    b.phdr[0].p_offset = 0x2000;
    b.phdr[0].p_vaddr = 0x12000;
    cr_expect(eq(int, image(&i), ELF_MALFORMED), "the header is not mapped");
}

Test(elf, image_that_no_loader_could_map_there)
{
    struct elf_image i;

    built_init(&b);
    b.phdr[0].p_vaddr += 0x10;
    cr_assert(eq(int, image(&i), ELF_MALFORMED));
}

/* The image is still good for its range where a detail lies outside. */
Test(elf, details_outside_the_image_are_dropped)
{
    struct elf_image i;

    built_init(&b);
    b.phdr[2].p_vaddr = 0x900000;
    b.phdr[1].p_vaddr = 0x900000;
    cr_assert(eq(int, image(&i), ELF_OK));
    cr_assert(eq(u64, i.eh_frame_hdr_size, 0));
    cr_assert(eq(sz, i.build_id_size, 0));
}

Test(elf, notes_that_lie)
{
    static const struct {
        const char *name;
        Elf64_Nhdr header;
        char owner[5];
        size_t segment; /* 0: as it is */
    } rows[] = {
        {"other owner", {4, 20, NT_GNU_BUILD_ID}, "GNX"},
        {"other type", {4, 20, 1}, "GNU"},
        {"too long for the segment", {4, 24, NT_GNU_BUILD_ID}, "GNU"},
        {"huge", {4, UINT32_MAX, NT_GNU_BUILD_ID}, "GNU"},
        {"huge name", {UINT32_MAX, 20, NT_GNU_BUILD_ID}, "GNU"},
        {"empty", {4, 0, NT_GNU_BUILD_ID}, "GNU"},
        {"longer than any build-id", {4, ELF_BUILD_ID_MAX + 1, NT_GNU_BUILD_ID}, "GNU", 200},
    };

    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        struct elf_image i;

        built_init(&b);
        b.note.header = rows[k].header;
        memcpy(b.note.name, rows[k].owner, 4);
        if (rows[k].segment)
            b.phdr[1].p_memsz = rows[k].segment;
        cr_expect(eq(int, image(&i), ELF_OK), "%s", rows[k].name);
        cr_expect(eq(sz, i.build_id_size, 0), "%s", rows[k].name);
    }
}

/* GNU property notes come first and are padded to 8. */
Test(elf, build_id_behind_another_note_of_alignment_8)
{
    struct elf_image i;
    struct {
        Elf64_Nhdr header;
        char name[4];
        uint8_t desc[12], pad[4];
    } first = {{4, 12, NT_GNU_PROPERTY_TYPE_0}, "GNU", {0}, {0}};

    built_init(&b);
    memcpy(b.eh_frame, &first, sizeof(first));
    memmove(b.eh_frame + 32, &b.note,
            16); /* into eh_frame_hdr: header and name; an id of 4 bytes does not fit */
    ((Elf64_Nhdr *)b.eh_frame_hdr)->n_descsz = 4;
    b.phdr[1].p_vaddr = BUILT_VADDR + BUILT_AT(eh_frame);
    b.phdr[1].p_memsz = 32 + 16 + 8;
    b.phdr[1].p_align = 8;

    cr_assert(eq(int, image(&i), ELF_OK));
    cr_assert(eq(sz, i.build_id_size, 4));
}

Test(elf, sections_that_lie)
{
    struct elf_file f;

    built_init(&b);
    b.shdr[SEC_SYMTAB].sh_flags |= SHF_COMPRESSED;
    b.shdr[SEC_EH_FRAME].sh_type = SHT_NOBITS;
    b.shdr[SEC_DYNSYM].sh_link = SEC_N;
    cr_assert(eq(int, file(&f), ELF_OK));
    cr_expect(eq(u64, f.symtab.count, 0), "compressed");
    cr_expect(eq(u64, f.eh_frame_size, 0), "no bytes");
    cr_expect(eq(u64, f.dynsym.count, 0), "strings in no section");

    built_init(&b);
    b.shdr[SEC_SYMTAB].sh_entsize = 16;
    b.shdr[SEC_DYNSYM].sh_link = SEC_NOTE;
    b.shdr[SEC_EH_FRAME].sh_name = 1000;
    cr_assert(eq(int, file(&f), ELF_OK));
    cr_expect(eq(u64, f.symtab.count, 0), "other entry size");
    cr_expect(eq(u64, f.dynsym.count, 0), "strings of another type");
    cr_expect(eq(u64, f.eh_frame_size, 0), "name outside");

    built_init(&b);
    b.shdr[SEC_SYMTAB].sh_size = UINT64_MAX;
    b.ehdr.e_shstrndx = SEC_N;
    cr_assert(eq(int, file(&f), ELF_OK));
    cr_expect(eq(u64, f.symtab.count, 0), "size wraps");
    cr_expect(eq(u64, f.eh_frame_size, 0), "no names at all");
    cr_expect(eq(u64, f.dynsym.count, BUILT_SYMBOLS), "found by type alone");

    built_init(&b);
    b.ehdr.e_shentsize = 40;
    cr_expect(eq(int, file(&f), ELF_MALFORMED), "other section header size");
    built_init(&b);
    b.ehdr.e_shoff = UINT64_MAX - 64;
    cr_expect(eq(int, file(&f), ELF_MALFORMED), "section headers wrap");
    built_init(&b);
    b.ehdr.e_shnum = 4000;
    cr_expect(eq(int, file(&f), ELF_UNREADABLE), "section headers beyond the file");
}

Test(elf, file_without_section_headers_has_its_build_id)
{
    struct elf_file f;

    built_init(&b);
    b.ehdr.e_shoff = 0;
    b.ehdr.e_shnum = 0;
    cr_assert(eq(int, file(&f), ELF_OK));
    cr_assert(eq(sz, f.build_id_size, 20));
    cr_assert(eq(u64, f.symtab.count, 0));
}

/* Everything that reads ELF, over bytes that may say anything. The buffer has its exact size. */
static void read_all(const uint8_t *bytes, size_t size)
{
    struct bytes b_ = {bytes, size};
    struct elf_reader reader = {&b_, bytes_read};
    struct elf_image i;
    struct elf_file f;
    struct symbol_query queries[] = {{.address = 0x500}, {.address = 0x700}, {.address = BUILT_VADDR + 1}};
    static uint8_t buffer[4096];
    char name[64];

    (void)elf_read_image(&reader, BASE, &i);
    if (elf_read_file(&reader, &f) != ELF_OK)
        return;
    (void)symbols_resolve(&reader, &f, queries, 3, buffer, sizeof(buffer));
    for (size_t k = 0; k < 3; k++) {
        if (queries[k].found)
            cr_assert(lt(sz, symbols_read_name(&reader, &queries[k], name, sizeof(name)), sizeof(name)));
    }
}

/* @header: bytes to flip from the start; the rest is sampled by @step. */
static void sweep(const uint8_t *bytes, size_t size, size_t dense, size_t step)
{
    static const uint8_t flips[] = {0xff, 0x80, 0x01, 0x10};
    uint8_t *copy = malloc(size);

    memcpy(copy, bytes, size);
    for (size_t i = 0; i < size; i += i < dense ? 1 : step) {
        for (size_t k = 0; k < sizeof(flips); k++) {
            copy[i] ^= flips[k];
            read_all(copy, size);
            copy[i] ^= flips[k];
        }
    }
    free(copy);
    for (size_t n = 0; n < size; n += n < dense ? 1 : step) {
        copy = malloc(n ? n : 1);
        memcpy(copy, bytes, n);
        read_all(copy, n);
        free(copy);
    }
}

Test(elf, truncation_and_byte_flips_of_a_built_file)
{
    built_init(&b);
    b.symtab[1] = (Elf64_Sym){1, STT_FUNC, 0, 1, BUILT_VADDR, 0x100};
    sweep((const uint8_t *)&b, sizeof(b), sizeof(b), 1);
}

/* The kernel's vDSO is a whole file in memory: a small real one on every machine. */
Test(elf, truncation_and_byte_flips_of_the_vdso)
{
    const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR); // NOLINT
    const Elf64_Ehdr *ehdr = (const void *)vdso;
    size_t size = ehdr->e_shoff + ehdr->e_shnum * sizeof(Elf64_Shdr);

    sweep(vdso, size, 1200, 7);
}

Test(elf, vdso_image)
{
    uint64_t base = getauxval(AT_SYSINFO_EHDR);
    struct bytes bytes = {(const void *)(uintptr_t)base, 8192};
    struct elf_reader reader = {&bytes, bytes_read};
    struct elf_image i;

    cr_assert(eq(int, elf_read_image(&reader, base, &i), ELF_OK));
    cr_assert(eq(u64, i.start, base));
    cr_assert(gt(u64, i.eh_frame_hdr_size, 0));
    cr_assert(gt(sz, i.build_id_size, 0));
    cr_assert(eq(u16, i.machine, EM_X86_64));
}
