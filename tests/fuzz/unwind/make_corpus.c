/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes the hand-made seeds of the corpora, in the input formats of the fuzz programs: make_corpus
 * DIRECTORY. What is committed under corpus/ came from here, and from findings. Zone: tests.
 */
#include <sys/stat.h>

#include "tests/fuzz/unwind/fuzz.h"
#include "tests/unit/unwind/elf_builder.h"
#include "tests/unit/unwind/fixture.h"

static const char *directory;

static void put(const char *corpus, const char *name, const void *bytes, size_t size)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, corpus);
    mkdir(path, 0777);
    snprintf(path, sizeof(path), "%s/%s/%s", directory, corpus, name);
    file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void put_emit(const char *corpus, const char *name, const struct emit *e)
{
    put(corpus, name, e->bytes, e->n);
}

static void elf_seeds(void)
{
    static struct built_elf b;

    built_init(&b);
    b.symtab[1] = (Elf64_Sym){1, STT_FUNC, 0, 1, 0x100, 0x1000};
    b.symtab[2] = (Elf64_Sym){3, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 0x1100, 0x10};
    memcpy(b.strtab, "\0f\0main", 8);
    put("elf", "built", &b, sizeof(b));
    put("symbols", "built", &b, sizeof(b));
    b.ehdr.e_shnum = 0;
    b.ehdr.e_shstrndx = SHN_XINDEX;
    b.shdr[0].sh_size = SEC_N;
    b.shdr[0].sh_link = SEC_NAMES;
    put("symbols", "extended", &b, sizeof(b));
}

static const uint8_t program[] = {0x44, 0x0e, 16, 0x86, 2, 0x41, 0x0d, 6, 0x0a, 0x48, 0x0c, 7, 8, 0x42, 0x0b};
static const uint8_t odd[] = {0x0f, 3,    0x76, 0x78, 0x06, 0x10, 6,    2, 0x76, 0,    0x44, 0x09, 16,
                              5,    0x44, 0x07, 16,   0x2e, 8,    0x14, 3, 2,    0x2f, 12,   3};

/* Three functions; @hdr: with a sorted table. Returns where .eh_frame begins. */
static size_t tables(struct emit *e, bool hdr, const char *augmentation)
{
    struct emit frame = {};
    size_t at[3], cie, split = hdr ? 12 + 3 * 8 : 0;
    uint64_t base = FUZZ_TABLE + split;

    cie = emit_cie(&frame, augmentation);
    for (size_t i = 0; i < 3; i++)
        at[i] = emit_fde(&frame, base, cie, FUZZ_TABLE + 0x7ff0 + 0x100 * i, 0x100, i == 1 ? odd : program,
                         i == 1 ? sizeof(odd) : sizeof(program));
    emit_int(&frame, 0, 4);
    if (hdr) {
        EMIT(e, 1, 0x1b, 3, 0x3b);
        emit_int(e, base - (FUZZ_TABLE + 4), 4);
        emit_int(e, 3, 4);
        for (size_t i = 0; i < 3; i++) {
            emit_int(e, 0x7ff0 + 0x100 * i, 4);
            emit_int(e, split + at[i], 4);
        }
    }
    emit_bytes(e, frame.bytes, frame.n);
    return split;
}

static void ehframe_seeds(void)
{
    for (int form = 1; form <= 3; form++) {
        struct emit t = {}, e = {};
        size_t split = tables(&t, form & 1, "zR");
        char name[] = "form0";

        EMIT(&e, (uint8_t)form);
        emit_int(&e, split, 2);
        emit_bytes(&e, t.bytes, t.n);
        name[4] = (char)('0' + form);
        put_emit("ehframe", name, &e);
    }
}

static void cfi_seeds(void)
{
    struct emit e = {};

    EMIT(&e, 1, 0xf8, 0x1b, 5, 0x0c, 7, 8, 0x90, 1);
    emit_bytes(&e, program, sizeof(program));
    put_emit("cfi", "usual", &e);
    e.n -= sizeof(program);
    emit_bytes(&e, odd, sizeof(odd));
    put_emit("cfi", "odd", &e);
}

static void expr_seeds(void)
{
    static const uint8_t plt[] = {0,    8, 1,    2, 3,    4,    5,    6,    7,    8,    12,
                                  0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
    static const uint8_t loop[] = {1, 0, 8, 0x3a, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff, 0x13};
    static const uint8_t deref[] = {0, 16, 0, 0, 8, 0,    0, 0,    0,    0, 1,    2, 3,   4,
                                    5, 6,  7, 8, 8, 0x77, 0, 0x06, 0x77, 8, 0x94, 2, 0x16};

    put("expr", "plt", plt, sizeof(plt));
    put("expr", "loop", loop, sizeof(loop));
    put("expr", "deref", deref, sizeof(deref));
}

static void step_seed(const char *name, uint8_t form, uint16_t known, uint16_t rbp, uint16_t pc,
                      const struct emit *table)
{
    struct emit e = {};

    EMIT(&e, form);
    emit_int(&e, known, 2);
    emit_int(&e, rbp, 2);
    if (!(form & 2))
        emit_int(&e, pc, 2);
    emit_int(&e, table->n, 2);
    emit_bytes(&e, table->bytes, table->n);
    for (uint64_t i = 0; i < 24; i++)
        emit_int(&e, i % 2 ? FUZZ_TABLE + 0x8000 : FUZZ_STACK + 16 * i + 16, 8);
    put_emit("step", name, &e);
}

static void step_seeds(void)
{
    struct emit with_hdr = {}, scanned = {}, signal = {}, code = {};

    tables(&with_hdr, true, "zR");
    tables(&scanned, false, "zR");
    tables(&signal, false, "zRS");
    step_seed("table", 4, 0xffff, 16, 0x7ff0, &with_hdr);
    step_seed("scan", 1, 0xffff, 16, 0x8000, &scanned);
    step_seed("signal", 1, 0xffff, 16, 0x8101, &signal);
    EMIT(&code, 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05, 0xe8, 0, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0, 0xff, 0xd0);
    step_seed("trampoline", 9, 0xffff, 16, 0, &code);
    step_seed("stub", 8, 0xffff, 16, 12, &code);
    step_seed("null", 10, 0xffff, 16, 0, &code);
    step_seed("frame_pointer", 9, 0xffff, 16, 5, &code);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    directory = argv[1];
    elf_seeds();
    ehframe_seeds();
    cfi_seeds();
    expr_seeds();
    step_seeds();
    return 0;
}
