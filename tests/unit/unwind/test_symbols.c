/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * unwind/symbols.c: which symbol names an address, and which must not.
 * Zone: tests.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "tests/unit/unwind/elf_builder.h"
#include "unwind/symbols.h"

TestSuite(symbols, .timeout = 5);

static struct built_elf b;
static struct bytes all;
static struct elf_reader reader;
static struct elf_file file;
static uint8_t buffer[4096];

#define INFO(bind, type) ELF64_ST_INFO(STB_##bind, STT_##type)

static uint32_t name_in(char *table, const char *name)
{
    size_t at = 1;

    while (table[at] != '\0')
        at += strlen(table + at) + 1;
    strcpy(table + at, name);
    return (uint32_t)at;
}

static void add(unsigned index, const char *name, unsigned info, uint64_t value, uint64_t size)
{
    b.symtab[index] = (Elf64_Sym){name_in(b.strtab, name), (unsigned char)info, 0, 1, value, size};
}

static void start(void)
{
    built_init(&b);
    all = (struct bytes){&b, sizeof(b)};
    reader = (struct elf_reader){&all, bytes_read};
    cr_assert(eq(int, elf_read_file(&reader, &file), ELF_OK));
}

/* "" where no symbol contains the address. */
static const char *name_of(uint64_t address)
{
    static char name[64];
    struct symbol_query query = {.address = address};

    cr_assert(eq(int, symbols_resolve(&reader, &file, &query, 1, buffer, sizeof(buffer)), ELF_OK));
    symbols_read_name(&reader, &query, name, sizeof(name));
    return name;
}

#define ASSERT_NAME(address, expected) cr_assert(eq(str, (char *)name_of(address), (char *)(expected)))

Test(symbols, an_address_inside_is_named_and_outside_is_not)
{
    start();
    add(1, "f", INFO(GLOBAL, FUNC), 0x1000, 0x10);

    ASSERT_NAME(0xfff, "");
    ASSERT_NAME(0x1000, "f");
    ASSERT_NAME(0x100f, "f");
    ASSERT_NAME(0x1010, "");
}

Test(symbols, kinds_that_do_not_count)
{
    start();
    add(1, "f", INFO(GLOBAL, FUNC), 0x1000, 0);
    add(2, "n", INFO(GLOBAL, NOTYPE), 0x1000, 16);
    add(3, "s", INFO(LOCAL, SECTION), 0x1000, 16);
    add(4, "t", INFO(GLOBAL, TLS), 0x1000, 16);
    add(5, "u", INFO(GLOBAL, FUNC), 0x1000, 16);
    b.symtab[5].st_shndx = SHN_UNDEF;
    add(6, "a", INFO(GLOBAL, FUNC), 0x1000, 16);
    b.symtab[6].st_shndx = SHN_ABS;
    ASSERT_NAME(0x1000, "");

    add(7, "i", INFO(GLOBAL, GNU_IFUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "i");
    add(7, "o", INFO(GLOBAL, OBJECT), 0x1000, 16);
    ASSERT_NAME(0x1000, "o");
}

Test(symbols, the_innermost_wins)
{
    start();
    add(1, "inner", INFO(LOCAL, FUNC), 0x1010, 0x10);
    add(2, "outer", INFO(GLOBAL, FUNC), 0x1000, 0x100);
    add(3, "start", INFO(LOCAL, FUNC), 0x1000, 8);

    ASSERT_NAME(0x1018, "inner");
    ASSERT_NAME(0x1020, "outer");
    ASSERT_NAME(0x1004, "start");
}

Test(symbols, global_over_weak_over_local_then_the_first)
{
    start();
    add(1, "local", INFO(LOCAL, FUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "local");
    add(2, "weak", INFO(WEAK, FUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "weak");
    add(3, "weak2", INFO(WEAK, FUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "weak");
    add(4, "global", INFO(GLOBAL, FUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "global");
    add(5, "global2", INFO(GLOBAL, FUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "global");
}

Test(symbols, symtab_before_dynsym)
{
    start();
    b.dynsym[1] = (Elf64_Sym){name_in(b.dynstr, "dyn"), INFO(GLOBAL, FUNC), 0, 1, 0x1000, 16};
    ASSERT_NAME(0x1000, "dyn");
    add(1, "sym", INFO(GLOBAL, FUNC), 0x1000, 16);
    ASSERT_NAME(0x1000, "sym");
}

Test(symbols, many_addresses_in_one_pass)
{
    struct symbol_query q[] = {{.address = 0x0fff}, {.address = 0x1000}, {.address = 0x1001},
                               {.address = 0x2000}, {.address = 0x2fff}, {.address = UINT64_MAX}};

    start();
    add(1, "f", INFO(GLOBAL, FUNC), 0x1000, 0x10);
    add(2, "g", INFO(GLOBAL, FUNC), 0x2000, 0x1000);
    cr_assert(eq(int, symbols_resolve(&reader, &file, q, 6, buffer, sizeof(buffer)), ELF_OK));

    cr_assert(not(q[0].found));
    cr_assert(q[1].found && q[1].value == 0x1000 && q[1].size == 0x10);
    cr_assert(q[2].found && q[2].value == 0x1000);
    cr_assert(q[3].found && q[3].value == 0x2000);
    cr_assert(q[4].found && q[4].value == 0x2000);
    cr_assert(not(q[5].found));
}

Test(symbols, a_symbol_may_reach_the_end_of_the_address_space)
{
    start();
    add(1, "end", INFO(GLOBAL, FUNC), UINT64_MAX - 7, 0x100);
    ASSERT_NAME(UINT64_MAX, "end");
    ASSERT_NAME(0x10, "");
}

Test(symbols, result_of_an_earlier_call_is_cleared)
{
    struct symbol_query q = {.address = 0x1000, .found = true, .value = 1, .size = 1};

    start();
    cr_assert(eq(int, symbols_resolve(&reader, &file, &q, 1, buffer, sizeof(buffer)), ELF_OK));
    cr_assert(not(q.found));
}

Test(symbols, names)
{
    struct symbol_query q = {.address = 0x1000};
    char name[8];

    start();
    add(1, "sevenchars", INFO(GLOBAL, FUNC), 0x1000, 0x10);
    cr_assert(eq(int, symbols_resolve(&reader, &file, &q, 1, buffer, sizeof(buffer)), ELF_OK));
    cr_assert(eq(sz, symbols_read_name(&reader, &q, name, 8), 7), "cut");
    cr_assert(eq(str, name, "sevench"));
    cr_assert(eq(sz, symbols_read_name(&reader, &q, name, 1), 0));
    cr_assert(eq(str, name, ""));

    memset(b.strtab + 1, 'x', sizeof(b.strtab) - 1);
    cr_assert(eq(sz, symbols_read_name(&reader, &q, name, 8), 7), "cut before the table ends");
    q.name_limit = q.name + 3;
    cr_assert(eq(sz, symbols_read_name(&reader, &q, name, 8), 0), "never terminated");
    cr_assert(eq(str, name, ""));
}

Test(symbols, name_outside_its_table_is_no_symbol)
{
    struct symbol_query q = {.address = 0x1000};

    start();
    add(1, "f", INFO(GLOBAL, FUNC), 0x1000, 0x10);
    b.symtab[1].st_name = sizeof(b.strtab);
    cr_assert(eq(int, symbols_resolve(&reader, &file, &q, 1, buffer, sizeof(buffer)), ELF_OK));
    cr_assert(not(q.found));
}

Test(symbols, a_table_beyond_the_file_is_reported_and_the_other_still_used)
{
    struct symbol_query q = {.address = 0x1000};

    start();
    b.dynsym[1] = (Elf64_Sym){name_in(b.dynstr, "dyn"), INFO(GLOBAL, FUNC), 0, 1, 0x1000, 16};
    file.symtab.count = 1u << 30;
    cr_assert(eq(int, symbols_resolve(&reader, &file, &q, 1, buffer, sizeof(buffer)), ELF_UNREADABLE));
    cr_assert(q.found);
}

/* A table whose every symbol covers every address costs bounded work. */
static bool read_cover_all(void *context, uint64_t offset, void *to, size_t size)
{
    Elf64_Sym symbol = {1, INFO(GLOBAL, FUNC), 0, 1, 0, UINT64_MAX};

    (void)context, (void)offset;
    for (size_t i = 0; i + sizeof(symbol) <= size; i += sizeof(symbol))
        memcpy((char *)to + i, &symbol, sizeof(symbol));
    return true;
}

Test(symbols, hostile_table_is_given_up)
{
    static struct symbol_query q[1000];
    struct elf_reader hostile = {NULL, read_cover_all};
    struct elf_file f = {.symtab = {0, UINT64_C(1) << 40, 0, 100}};

    for (size_t i = 0; i < 1000; i++)
        q[i].address = i;
    cr_assert(eq(int, symbols_resolve(&hostile, &f, q, 1000, buffer, sizeof(buffer)), ELF_MALFORMED));
}
