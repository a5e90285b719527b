/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/ehframe.c: pointer encodings, CIE and FDE forms, the search table and the linear scan.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unwind/fixture.h"
#include "unwind/span.h"

TestSuite(ehframe, .timeout = 10);

#define BASE 0x4000
#define DATA 0x100 /* of datarel */
#define CODE 0x20000

static const uint8_t no_program[] = {0};

static const struct {
    const char *name;
    uint8_t encoding;
    uint8_t bytes[16];
    uint64_t value;
    enum uw_status status;
} pointers[] = {
    {"absptr", 0x00, {1, 2, 3, 4, 5, 6, 7, 8}, 0x0807060504030201, UW_OK},
    {"uleb128", 0x01, {0x80, 1}, 0x80, UW_OK},
    {"udata2", 0x02, {0xfe, 0xff}, 0xfffe, UW_OK},
    {"udata4", 0x03, {0xfe, 0xff, 0xff, 0xff}, 0xfffffffe, UW_OK},
    {"udata8", 0x04, {1, 0, 0, 0, 0, 0, 0, 1}, 0x0100000000000001, UW_OK},
    {"sleb128", 0x09, {0x7f}, UINT64_MAX, UW_OK},
    {"sdata2", 0x0a, {0xfe, 0xff}, (uint64_t)-2, UW_OK},
    {"sdata4", 0x0b, {0xfd, 0xff, 0xff, 0xff}, (uint64_t)-3, UW_OK},
    {"sdata8", 0x0c, {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, (uint64_t)-4, UW_OK},
    {"pcrel sdata4", 0x1b, {0xff, 0xff, 0xff, 0xff}, BASE - 1, UW_OK},
    {"pcrel udata2", 0x12, {2, 0}, BASE + 2, UW_OK},
    {"datarel sdata4", 0x3b, {4, 0, 0, 0}, DATA + 4, UW_OK},
    {"indirect pcrel sdata4", 0x9b, {4, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0}, 9, UW_OK},
    {"indirect to nowhere", 0x9b, {0, 1, 0, 0}, 0, UW_TABLE_UNREADABLE},
    {"textrel", 0x2b, {4, 0, 0, 0}, 0, UW_BAD_CFI},
    {"funcrel", 0x4b, {4, 0, 0, 0}, 0, UW_BAD_CFI},
    {"unknown format", 0x05, {4, 0, 0, 0}, 0, UW_BAD_CFI},
    {"omit", 0xff, {4, 0, 0, 0}, 0, UW_BAD_CFI},
};

Test(ehframe, pointer_encodings)
{
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        struct fixture f;
        struct span span;
        uint8_t buffer[SPAN_BUFFER_SIZE];
        uint64_t value;

        fixture_init(&f);
        fixture_table(&f, BASE, pointers[i].bytes, sizeof(pointers[i].bytes));
        span_init(&span, &f.space, BASE, BASE + sizeof(pointers[i].bytes), buffer, sizeof(buffer));
        value = eh_read_pointer(&span, pointers[i].encoding, DATA);

        cr_expect(eq(int, span.status, pointers[i].status), "%s", pointers[i].name);
        cr_expect(eq(u64, value, pointers[i].value), "%s", pointers[i].name);
    }
}

Test(ehframe, aligned_pointer_skips_padding)
{
    static const uint8_t bytes[] = {0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 1, 0, 0, 0, 0, 0, 0, 0};
    struct fixture f;
    struct span span;
    uint8_t buffer[SPAN_BUFFER_SIZE];

    fixture_init(&f);
    fixture_table(&f, BASE + 3, bytes, sizeof(bytes));
    span_init(&span, &f.space, BASE + 3, BASE + 3 + sizeof(bytes), buffer, sizeof(buffer));

    cr_assert(eq(u64, eh_read_pointer(&span, 0x50, 0), 1));
    cr_assert(eq(u64, span.address, BASE + 16));
}

Test(ehframe, datarel_without_a_base_is_bad)
{
    static const uint8_t bytes[] = {4, 0, 0, 0};
    struct fixture f;
    struct span span;
    uint8_t buffer[SPAN_BUFFER_SIZE];

    fixture_init(&f);
    fixture_table(&f, BASE, bytes, sizeof(bytes));
    span_init(&span, &f.space, BASE, BASE + sizeof(bytes), buffer, sizeof(buffer));

    cr_assert(eq(u64, eh_read_pointer(&span, 0x3b, 0), 0));
    cr_assert(eq(int, span.status, UW_BAD_CFI));
}

/* The body of a CIE behind its id, up to the program, which is always def_cfa rsp+8. */
struct cie_row {
    const char *name;
    size_t size;
    uint8_t body[48];
    enum uw_status status;
    uint8_t encoding;
    bool signal_frame;
    uint64_t return_address;
};

#define CIE(name, status, encoding, signal, ra, ...)                                        \
    {                                                                                       \
        name, sizeof((uint8_t[]){__VA_ARGS__}), {__VA_ARGS__}, status, encoding, signal, ra \
    }

static const struct cie_row cies[] = {
    CIE("version 1", UW_OK, 0x1b, false, 16, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b),
    CIE("version 3, column is ULEB128", UW_OK, 0x1b, false, 16, 3, 'z', 'R', 0, 1, 0x78, 0x90, 0, 1, 0x1b),
    CIE("version 4", UW_OK, 0x1b, false, 16, 4, 'z', 'R', 0, 8, 0, 1, 0x78, 16, 1, 0x1b),
    CIE("version 4, 32-bit addresses", UW_BAD_CFI, 0x1b, false, 0, 4, 'z', 'R', 0, 4, 0, 1, 0x78, 16, 1,
        0x1b),
    CIE("version 4, segments", UW_BAD_CFI, 0x1b, false, 0, 4, 'z', 'R', 0, 8, 1, 1, 0x78, 16, 1, 0x1b),
    CIE("version 2", UW_BAD_CFI, 0x1b, false, 0, 2, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b),
    CIE("no augmentation: absptr", UW_OK, 0x00, false, 16, 1, 0, 1, 0x78, 16),
    CIE("gcc 2", UW_OK, 0x00, false, 16, 1, 'e', 'h', 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0x78, 16),
    CIE("signal frame", UW_OK, 0x1b, true, 16, 1, 'z', 'R', 'S', 0, 1, 0x78, 16, 1, 0x1b),
    CIE("C++", UW_OK, 0x1b, false, 16, 1, 'z', 'P', 'L', 'R', 0, 1, 0x78, 16, 7, 0x9b, 1, 2, 3, 4, 0x1b,
        0x1b),
    CIE("personality absptr", UW_OK, 0x1b, false, 16, 1, 'z', 'P', 'R', 0, 1, 0x78, 16, 10, 0, 1, 2, 3, 4, 5,
        6, 7, 8, 0x1b),
    CIE("personality omitted", UW_OK, 0x1b, false, 16, 1, 'z', 'P', 'R', 0, 1, 0x78, 16, 2, 0xff, 0x1b),
    CIE("personality datarel", UW_OK, 0x1b, false, 16, 1, 'z', 'P', 'R', 0, 1, 0x78, 16, 6, 0xbb, 1, 2, 3, 4,
        0x1b),
    CIE("unknown letter behind z", UW_OK, 0x1b, false, 16, 1, 'z', 'R', '?', 0, 1, 0x78, 16, 3, 0x1b, 9, 9),
    CIE("unknown letter without z", UW_BAD_CFI, 0, false, 0, 1, '?', 0, 1, 0x78, 16),
    CIE("data longer than its size", UW_BAD_CFI, 0x1b, false, 0, 1, 'z', 'R', 'L', 0, 1, 0x78, 16, 1, 0x1b,
        0x1b),
    CIE("size beyond the record", UW_BAD_CFI, 0x1b, false, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 0x7f, 0x1b),
    CIE("endless letters", UW_BAD_CFI, 0x1b, false, 0, 1, 'z', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R',
        'R', 'R', 'R', 'R', 'R', 'R', 'R', 'R', 0, 1, 0x78, 16, 1, 0x1b),
};

static void emit_cie_row(struct emit *e, const struct cie_row *row)
{
    size_t start = emit_begin(e);

    emit_int(e, 0, 4);
    emit_bytes(e, row->body, row->size);
    EMIT(e, 0x0c, 7, 8);
    emit_end(e, start);
}

Test(ehframe, cie_forms)
{
    for (size_t i = 0; i < sizeof(cies) / sizeof(cies[0]); i++) {
        const struct cie_row *row = &cies[i];
        struct fixture f;
        struct emit e = {};
        struct eh_record record;
        enum uw_status status;
        size_t at;

        fixture_init(&f);
        emit_cie_row(&e, row);
        at = emit_begin(&e);
        emit_int(&e, e.n, 4);
        if (row->encoding == 0x1b) {
            emit_int(&e, CODE - (BASE + e.n), 4);
            emit_int(&e, 0x10, 4);
        } else {
            emit_int(&e, CODE, 8);
            emit_int(&e, 0x10, 8);
        }
        emit_int(&e, 0, 8);
        emit_end(&e, at);
        fixture_table(&f, BASE, e.bytes, e.n);
        status = eh_read_record(&f.space, BASE + at, BASE + e.n, &record, 0);

        cr_expect(eq(int, status, row->status), "%s", row->name);
        if (status != UW_OK)
            continue;
        cr_expect(record.is_fde, "%s", row->name);
        cr_expect(eq(u64, record.next, BASE + e.n), "%s", row->name);
        cr_expect(eq(u64, record.fde.start, CODE), "%s", row->name);
        cr_expect(eq(u64, record.fde.end, CODE + 0x10), "%s", row->name);
        cr_expect(eq(u8, record.fde.cie.encoding, row->encoding), "%s", row->name);
        cr_expect(eq(int, record.fde.cie.signal_frame, row->signal_frame), "%s", row->name);
        cr_expect(eq(u64, record.fde.cie.return_address, row->return_address), "%s", row->name);
        cr_expect(eq(i64, record.fde.cie.data_align, -8), "%s", row->name);
        cr_expect(eq(u8, e.bytes[record.fde.cie.program - BASE], 0x0c), "%s", row->name);
    }
}

Test(ehframe, extended_length)
{
    struct fixture f;
    struct emit e = {};
    struct eh_record record;
    size_t cie = emit_cie(&e, "zR"), at = e.n;

    fixture_init(&f);
    emit_int(&e, 0xffffffff, 4);
    emit_int(&e, 16, 8);
    emit_int(&e, e.n - cie, 4);
    emit_int(&e, CODE - (BASE + e.n), 4);
    emit_int(&e, 0x10, 4);
    emit_int(&e, 0, 4);
    fixture_table(&f, BASE, e.bytes, e.n);

    cr_assert(eq(int, eh_read_record(&f.space, BASE + at, BASE + e.n, &record, 0), UW_OK));
    cr_assert(eq(u64, record.fde.start, CODE));
    cr_assert(eq(u64, record.next, BASE + e.n));
}

Test(ehframe, lengths_and_ranges_that_lie)
{
    static const struct {
        const char *name;
        uint64_t length, pointer, size;
        enum uw_status status;
    } rows[] = {
        {"as it should be", 20, 0, 0x10, UW_OK},
        {"beyond the section", 24, 0, 0x10, UW_BAD_CFI},
        {"shorter than its fields", 8, 0, 0x10, UW_BAD_CFI},
        {"huge", 0xfffffff0, 0, 0x10, UW_BAD_CFI},
        {"CIE pointer below address 0", 20, 0x7fffffff, 0x10, UW_BAD_CFI},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        struct emit e = {};
        struct eh_record record;
        size_t cie = emit_cie(&e, "zR"), at = e.n;

        fixture_init(&f);
        emit_int(&e, rows[i].length, 4);
        emit_int(&e, rows[i].pointer ? rows[i].pointer : e.n - cie, 4);
        emit_int(&e, CODE - (BASE + e.n), 4);
        emit_int(&e, rows[i].size, 4);
        emit_int(&e, 0, 8);
        fixture_table(&f, BASE, e.bytes, e.n);

        cr_expect(eq(int, eh_read_record(&f.space, BASE + at, BASE + e.n, &record, 0), rows[i].status), "%s",
                  rows[i].name);
    }
}

/* n functions of 16 bytes, 32 apart, from CODE; with a table whose form can be spoiled. */
struct tables {
    struct fixture f;
    struct emit frame, hdr;
    size_t fde_at[200];
};

static struct tables t;

#define HDR 0x3000

static void build(size_t n, uint8_t count_encoding, uint8_t table_encoding)
{
    size_t cie;

    memset(&t, 0, sizeof(t));
    fixture_init(&t.f);
    cie = emit_cie(&t.frame, "zR");
    EMIT(&t.hdr, 1, 0x1b, count_encoding, table_encoding);
    emit_int(&t.hdr, BASE - (HDR + 4), 4);
    if (count_encoding != EH_PE_OMIT)
        emit_int(&t.hdr, n, 4);
    for (size_t i = 0; i < n; i++) {
        uint64_t start = CODE + i * 32;

        t.fde_at[i] = emit_fde(&t.frame, BASE, cie, start, 16, no_program, sizeof(no_program));
        emit_int(&t.hdr, start - HDR, 4);
        emit_int(&t.hdr, BASE + t.fde_at[i] - HDR, 4);
    }
    emit_int(&t.frame, 0, 4);
    fixture_table(&t.f, BASE, t.frame.bytes, t.frame.n);
    fixture_table(&t.f, HDR, t.hdr.bytes, t.hdr.n);
    t.f.modules[0] = (struct uw_module){
        .start = HDR, .end = CODE + 0x10000, .eh_frame_hdr = HDR, .eh_frame_hdr_size = t.hdr.n};
}

static void expect_all_found(size_t n, const char *what)
{
    struct eh_fde fde;

    for (size_t i = 0; i < n; i++) {
        uint64_t start = CODE + i * 32;

        for (uint64_t pc = start; pc < start + 16; pc += 15) {
            enum uw_status status = eh_find_fde(&t.f.space, &t.f.modules[0], pc, &fde);

            cr_expect(eq(int, status, UW_OK), "%s: %zu of %zu", what, i, n);
            cr_expect(eq(u64, fde.start, start), "%s: %zu of %zu", what, i, n);
        }
        cr_expect(eq(int, eh_find_fde(&t.f.space, &t.f.modules[0], start + 16, &fde), UW_NO_CFI), "%s", what);
    }
    cr_expect(eq(int, eh_find_fde(&t.f.space, &t.f.modules[0], CODE - 1, &fde), UW_NO_CFI), "%s", what);
}

Test(ehframe, binary_search_finds_each_of_n)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 100, 200};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        build(sizes[i], 0x03, 0x3b);
        expect_all_found(sizes[i], "table");
    }
}

Test(ehframe, binary_search_reads_little)
{
    struct eh_fde fde;

    build(200, 0x03, 0x3b);
    (void)eh_find_fde(&t.f.space, &t.f.modules[0], CODE + 100 * 32, &fde);

    /* header, 4 halvings to 16 entries, the block, FDE, CIE; a read whose end was a guess counts twice */
    cr_assert(le(sz, t.f.n_table_reads, 10));
}

Test(ehframe, scans_where_there_is_no_usable_table)
{
    build(100, 0x03, 0x1b);
    expect_all_found(100, "table of another encoding");
    build(100, EH_PE_OMIT, EH_PE_OMIT);
    expect_all_found(100, "no table");
    build(100, 0x03, 0x3b);
    t.f.modules[0].eh_frame_hdr_size -= 8;
    t.f.tables[1].size -= 8;
    expect_all_found(100, "truncated table");
    build(100, 0x03, 0x3b);
    t.f.modules[0].eh_frame_hdr_size = 0;
    t.f.modules[0].eh_frame = BASE;
    t.f.modules[0].eh_frame_size = t.frame.n;
    expect_all_found(100, "no header");
    build(100, 0x03, 0x3b);
    t.hdr.bytes[0] = 2;
    t.f.modules[0].eh_frame = BASE;
    t.f.modules[0].eh_frame_size = t.frame.n;
    expect_all_found(100, "unknown header version");
}

Test(ehframe, nothing_to_search_is_not_an_error)
{
    struct eh_fde fde;

    build(1, 0x03, 0x3b);
    t.f.modules[0].eh_frame_hdr_size = 0;
    cr_assert(eq(int, eh_find_fde(&t.f.space, &t.f.modules[0], CODE, &fde), UW_NO_CFI));
}

Test(ehframe, unreadable_header_is_reported)
{
    struct eh_fde fde;

    build(1, 0x03, 0x3b);
    t.f.n_tables = 1;
    cr_assert(eq(int, eh_find_fde(&t.f.space, &t.f.modules[0], CODE, &fde), UW_TABLE_UNREADABLE));
}

Test(ehframe, scan_passes_over_a_damaged_record)
{
    struct eh_fde fde;

    build(3, EH_PE_OMIT, EH_PE_OMIT);
    t.frame.bytes[t.fde_at[1] + 4] = 1; /* its CIE pointer leads astray */

    cr_assert(eq(int, eh_find_fde(&t.f.space, &t.f.modules[0], CODE + 64, &fde), UW_OK));
    cr_assert(eq(u64, fde.start, CODE + 64));
    cr_assert(eq(int, eh_find_fde(&t.f.space, &t.f.modules[0], CODE + 32, &fde), UW_NO_CFI));
}

/* Story: S-truncated tables. Whatever is missing or flipped: an answer, in bounds (the buffer has its exact
 * size). */
static void sweep_one(const uint8_t *frame, size_t n_frame, const uint8_t *hdr, size_t n_hdr)
{
    struct fixture f;
    struct eh_fde fde;
    struct cfi_row row;

    fixture_init(&f);
    fixture_table(&f, BASE, frame, n_frame);
    fixture_table(&f, HDR, hdr, n_hdr);
    f.modules[0] = t.f.modules[0];
    for (uint64_t pc = CODE - 8; pc < CODE + 5 * 32; pc += 8) {
        if (eh_find_fde(&f.space, &f.modules[0], pc, &fde) == UW_OK)
            (void)cfi_row_at(&f.space, &fde, pc, &row);
    }
}

static void *exact_copy(const void *bytes, size_t n)
{
    void *copy = malloc(n ? n : 1);

    memcpy(copy, bytes, n);
    return copy;
}

Test(ehframe, truncation_and_byte_flips)
{
    static const uint8_t flips[] = {0xff, 0x80, 0x7f, 1};

    for (unsigned form = 0; form < 2; form++) {
        build(5, 0x03, form ? 0x3b : 0x1b);
        for (size_t n = 0; n <= t.frame.n; n++) {
            uint8_t *copy = exact_copy(t.frame.bytes, n);

            sweep_one(copy, n, t.hdr.bytes, t.hdr.n);
            free(copy);
        }
        for (size_t i = 0; i < t.frame.n + t.hdr.n; i++) {
            for (size_t k = 0; k < sizeof(flips); k++) {
                uint8_t *byte = i < t.frame.n ? &t.frame.bytes[i] : &t.hdr.bytes[i - t.frame.n];

                *byte ^= flips[k];
                sweep_one(t.frame.bytes, t.frame.n, t.hdr.bytes, t.hdr.n);
                *byte ^= flips[k];
            }
        }
    }
}
