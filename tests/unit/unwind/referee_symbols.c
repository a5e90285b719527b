/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Names of every function symbol of real files, against what libelf reads: each symbol's first and last byte
 * must get a name that libelf also has for an innermost symbol there, and an address in no symbol none.
 * Prints TAP. Zone: tests.
 */
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unwind/file_image.h"
#include "unwind/symbols.h"

struct symbol {
    uint64_t value, size;
    const char *name;
    int rank; /* larger is better */
    size_t order;
};

struct list {
    struct symbol *at;
    size_t n;
};

static int rank_of(const GElf_Sym *sym)
{
    int bind = GELF_ST_BIND(sym->st_info), type = GELF_ST_TYPE(sym->st_info);

    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_OBJECT)
        return -1;
    if (sym->st_size == 0 || sym->st_shndx == SHN_UNDEF || sym->st_shndx >= SHN_LORESERVE)
        return -1;
    return (bind == STB_LOCAL ? 0 : bind == STB_WEAK ? 2 : 4) + (type != STT_OBJECT);
}

static void collect(Elf *elf, GElf_Word wanted, struct list *list)
{
    Elf_Scn *section = NULL;

    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr mem, *header = gelf_getshdr(section, &mem);
        Elf_Data *data;

        if (header->sh_type != wanted)
            continue;
        data = elf_getdata(section, NULL);
        list->at = realloc(list->at, (list->n + header->sh_size / header->sh_entsize) * sizeof(*list->at));
        for (int i = 0; i < (int)(header->sh_size / header->sh_entsize); i++) {
            GElf_Sym sym_mem, *sym = gelf_getsym(data, i, &sym_mem);
            int rank = rank_of(sym);

            if (rank < 0)
                continue;
            list->at[list->n] = (struct symbol){
                sym->st_value, sym->st_size, elf_strptr(elf, header->sh_link, sym->st_name), rank, list->n};
            list->n++;
        }
    }
}

static bool contains(const struct symbol *s, uint64_t address)
{
    return address - s->value < s->size;
}

/* The rule in words of symbols.h, by brute force. */
static const struct symbol *expected(const struct list *list, uint64_t address)
{
    const struct symbol *best = NULL;

    for (size_t i = 0; i < list->n; i++) {
        const struct symbol *s = &list->at[i];

        if (!contains(s, address))
            continue;
        if (!best || s->value > best->value || (s->value == best->value && s->size < best->size) ||
            (s->value == best->value && s->size == best->size && s->rank > best->rank))
            best = s;
    }
    return best;
}

static int by_address(const void *a, const void *b)
{
    const struct symbol_query *x = a, *y = b;

    return (x->address > y->address) - (x->address < y->address);
}

/* First byte, last byte, and the byte behind each symbol. */
static size_t make_queries(const struct list *list, struct symbol_query *q)
{
    size_t n = 0, unique = 0;

    for (size_t i = 0; i < list->n; i++) {
        q[n++].address = list->at[i].value;
        q[n++].address = list->at[i].value + list->at[i].size - 1;
        q[n++].address = list->at[i].value + list->at[i].size;
    }
    qsort(q, n, sizeof(*q), by_address);
    for (size_t i = 0; i < n; i++) {
        if (unique == 0 || q[unique - 1].address != q[i].address)
            q[unique++] = q[i];
    }
    return unique;
}

static size_t compare_file(const char *path)
{
    struct file_image image;
    struct list list = {};
    struct symbol_query *q;
    static uint8_t buffer[65536];
    size_t n, named = 0, unnamed = 0, different = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);

    if (!elf || !file_image_open(&image, path))
        return 1;
    collect(elf, SHT_SYMTAB, &list);
    collect(elf, SHT_DYNSYM, &list);
    q = calloc(list.n * 3, sizeof(*q));
    n = make_queries(&list, q);
    if (symbols_resolve(&image.file_reader, &image.file, q, n, buffer, sizeof(buffer)) != ELF_OK)
        different++;
    for (size_t i = 0; i < n; i++) {
        const struct symbol *s = expected(&list, q[i].address);
        char name[1024] = "";

        if (q[i].found)
            symbols_read_name(&image.file_reader, &q[i], name, sizeof(name));
        if (!s ? q[i].found : strcmp(s->name, name) != 0) {
            printf("# %#lx: \"%s\" here, \"%s\" expected\n", (unsigned long)q[i].address, name,
                   s ? s->name : "");
            different++;
        }
        s ? named++ : unnamed++;
    }
    printf("# %zu symbols, %zu addresses named, %zu without a name, %zu differences\n", list.n, named,
           unnamed, different);
    free(q);
    free(list.at);
    elf_end(elf);
    close(fd);
    file_image_close(&image);
    return different + (named == 0);
}

int main(int argc, char **argv)
{
    size_t different = 0;

    elf_version(EV_CURRENT);
    for (int i = 1; i < argc; i++) {
        size_t d = compare_file(argv[i]);

        printf("%sok %d - %s\n", d ? "not " : "", i, argv[i]);
        different += d;
    }
    printf("1..%d\n", argc - 1);
    return different > 0;
}
