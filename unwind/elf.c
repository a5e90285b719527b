/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ELF64 headers from a mapped image or from a file. Names follow the System V gABI, chapters 4 and 5.
 * Nothing is trusted: each offset is checked for wrap-around, each count has a bound.
 * Zone: pure.
 */
#include "unwind/elf.h"

#include <elf.h>

/* Bounds on counts. Ordinary files have about 14 program headers and 40 sections; the limits are guesses. */
#define MAX_PROGRAM_HEADERS 1024
#define MAX_SECTIONS (UINT64_C(1) << 17)
#define MAX_NOTES 64
#define MAX_NOTE_BYTES 65536
/* Headers are read in groups: a read may be a system call. */
#define GROUP 16

#define PAGE_MASK UINT64_C(4095)
/* User space ends below this on every 64-bit Linux (five-level paging). */
#define ADDRESS_LIMIT (UINT64_C(1) << 56)

static bool read_at(const struct elf_reader *reader, uint64_t offset, void *to, size_t size)
{
    return offset + size >= offset && reader->read(reader->context, offset, to, size);
}

static enum elf_status read_ehdr(const struct elf_reader *reader, Elf64_Ehdr *ret)
{
    if (!read_at(reader, 0, ret, sizeof(*ret)))
        return ELF_UNREADABLE;
    if (__builtin_memcmp(ret->e_ident, ELFMAG, SELFMAG) != 0 || ret->e_ident[EI_CLASS] != ELFCLASS64 ||
        ret->e_ident[EI_DATA] != ELFDATA2LSB)
        return ELF_NOT_ELF;
    return ELF_OK;
}

static uint64_t align_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/*
 * Notes: namesz, descsz, type, name, desc, each padded. The padding is 4, in segments of alignment 8 it is 8
 * (gABI, "Note Section"; GNU property notes use it).
 */
static void read_build_id(const struct elf_reader *reader, uint64_t offset, uint64_t size, uint64_t align,
                          uint8_t *id, size_t *id_size)
{
    uint64_t at = 0;

    if (align != 8)
        align = 4;
    if (size > MAX_NOTE_BYTES)
        size = MAX_NOTE_BYTES;
    for (unsigned i = 0; i < MAX_NOTES && size - at >= sizeof(Elf64_Nhdr) + 4; i++) {
        struct {
            Elf64_Nhdr header;
            char name[4];
        } note;
        uint64_t desc, next;

        if (!read_at(reader, offset + at, &note, sizeof(note)))
            return;
        /* Sizes are 32-bit: these sums cannot wrap. */
        desc = align_up(at + sizeof(Elf64_Nhdr) + note.header.n_namesz, align);
        next = align_up(desc + note.header.n_descsz, align);
        if (desc > size || note.header.n_descsz > size - desc)
            return;
        if (note.header.n_type == NT_GNU_BUILD_ID && note.header.n_namesz == sizeof(ELF_NOTE_GNU) &&
            __builtin_memcmp(note.name, ELF_NOTE_GNU, sizeof(note.name)) == 0) {
            if (note.header.n_descsz > 0 && note.header.n_descsz <= ELF_BUILD_ID_MAX &&
                read_at(reader, offset + desc, id, note.header.n_descsz))
                *id_size = note.header.n_descsz;
            return;
        }
        if (next > size)
            return;
        at = next;
    }
}

/* What read_image collects in ELF virtual addresses, before the bias is known. */
struct image_scan {
    bool have_load, have_bias;
    uint64_t low, high, header; /* header: the address where the file's offset 0 is mapped */
    Elf64_Phdr frame, notes[8];
    size_t n_notes;
};

static enum elf_status scan_load(struct image_scan *scan, const Elf64_Phdr *load)
{
    uint64_t end = load->p_vaddr + load->p_memsz;

    if (load->p_memsz == 0)
        return ELF_OK;
    if (end < load->p_vaddr || end > ADDRESS_LIMIT)
        return ELF_MALFORMED;
    if (!scan->have_load || load->p_vaddr < scan->low)
        scan->low = load->p_vaddr & ~PAGE_MASK;
    if (!scan->have_load || end > scan->high)
        scan->high = align_up(end, PAGE_MASK + 1);
    scan->have_load = true;
    /* The loader maps whole pages, so the header is also seen where p_offset lies within the first page. */
    if (!scan->have_bias && load->p_offset <= PAGE_MASK && load->p_vaddr >= load->p_offset) {
        scan->header = load->p_vaddr - load->p_offset;
        scan->have_bias = true;
    }
    return ELF_OK;
}

static enum elf_status scan_phdr(struct image_scan *scan, const Elf64_Phdr *phdr)
{
    switch (phdr->p_type) {
    case PT_LOAD:
        return scan_load(scan, phdr);
    case PT_GNU_EH_FRAME:
        scan->frame = *phdr;
        break;
    case PT_NOTE:
        if (scan->n_notes < sizeof(scan->notes) / sizeof(scan->notes[0]))
            scan->notes[scan->n_notes++] = *phdr;
        break;
    default:
        break;
    }
    return ELF_OK;
}

static enum elf_status scan_phdrs(const struct elf_reader *reader, const Elf64_Ehdr *ehdr,
                                  struct image_scan *scan)
{
    Elf64_Phdr group[GROUP];

    if (ehdr->e_phnum == 0)
        return ELF_OK;
    if (ehdr->e_phentsize != sizeof(Elf64_Phdr) || ehdr->e_phnum > MAX_PROGRAM_HEADERS)
        return ELF_MALFORMED;
    for (size_t i = 0; i < ehdr->e_phnum; i += GROUP) {
        size_t n = ehdr->e_phnum - i < GROUP ? ehdr->e_phnum - i : GROUP;

        if (!read_at(reader, ehdr->e_phoff + i * sizeof(Elf64_Phdr), group, n * sizeof(Elf64_Phdr)))
            return ELF_UNREADABLE;
        for (size_t k = 0; k < n; k++) {
            enum elf_status status = scan_phdr(scan, &group[k]);

            if (status != ELF_OK)
                return status;
        }
    }
    return ELF_OK;
}

static bool within(const struct image_scan *scan, const Elf64_Phdr *phdr)
{
    return phdr->p_vaddr >= scan->low && phdr->p_vaddr <= scan->high &&
           phdr->p_memsz <= scan->high - phdr->p_vaddr;
}

enum elf_status elf_read_image(const struct elf_reader *reader, uint64_t base, struct elf_image *ret_image)
{
    struct image_scan scan = {};
    struct elf_image image = {};
    Elf64_Ehdr ehdr;
    enum elf_status status;

    status = read_ehdr(reader, &ehdr);
    if (status == ELF_OK)
        status = scan_phdrs(reader, &ehdr, &scan);
    if (status != ELF_OK)
        return status;
    if (!scan.have_bias || base > ADDRESS_LIMIT)
        return ELF_MALFORMED;

    image.bias = base - scan.header;
    image.start = image.bias + scan.low;
    image.end = image.bias + scan.high;
    image.machine = ehdr.e_machine;
    image.type = ehdr.e_type;
    /* Segments are mapped by pages: addresses and file offsets agree below that (gABI, p_align). */
    if ((image.bias & PAGE_MASK) != 0 || image.start > image.end || image.end > ADDRESS_LIMIT)
        return ELF_MALFORMED;
    if (scan.frame.p_memsz > 0 && within(&scan, &scan.frame)) {
        image.eh_frame_hdr = image.bias + scan.frame.p_vaddr;
        image.eh_frame_hdr_size = scan.frame.p_memsz;
    }
    for (size_t i = 0; i < scan.n_notes && image.build_id_size == 0; i++) {
        if (within(&scan, &scan.notes[i]) && scan.notes[i].p_vaddr >= scan.header)
            read_build_id(reader, scan.notes[i].p_vaddr - scan.header, scan.notes[i].p_memsz,
                          scan.notes[i].p_align, image.build_id, &image.build_id_size);
    }
    *ret_image = image;
    return ELF_OK;
}

/*
 * The section header table, with the counts that did not fit into the ELF header (gABI, e_shnum, e_shstrndx).
 */
struct sections {
    uint64_t offset, count, names;
};

static bool read_section(const struct elf_reader *reader, const struct sections *sections, uint64_t index,
                         Elf64_Shdr *ret)
{
    return index < sections->count &&
           read_at(reader, sections->offset + index * sizeof(Elf64_Shdr), ret, sizeof(*ret));
}

static enum elf_status find_sections(const struct elf_reader *reader, const Elf64_Ehdr *ehdr,
                                     struct sections *ret)
{
    Elf64_Shdr first;

    *ret = (struct sections){.offset = ehdr->e_shoff, .count = ehdr->e_shnum, .names = ehdr->e_shstrndx};
    if (ehdr->e_shoff == 0) {
        ret->count = 0;
        return ELF_OK;
    }
    if (ehdr->e_shentsize != sizeof(Elf64_Shdr))
        return ELF_MALFORMED;
    if (ehdr->e_shnum == 0 || ehdr->e_shstrndx == SHN_XINDEX) {
        if (!read_at(reader, ehdr->e_shoff, &first, sizeof(first)))
            return ELF_UNREADABLE;
        if (ehdr->e_shnum == 0)
            ret->count = first.sh_size;
        if (ehdr->e_shstrndx == SHN_XINDEX)
            ret->names = first.sh_link;
    }
    if (ret->count > MAX_SECTIONS || ehdr->e_shoff > UINT64_MAX / 2)
        return ELF_MALFORMED;
    return ELF_OK;
}

/* Is there anything to read, and does it not wrap? */
static bool has_bytes(const Elf64_Shdr *section)
{
    return section->sh_type != SHT_NOBITS && !(section->sh_flags & SHF_COMPRESSED) && section->sh_size > 0 &&
           section->sh_offset <= UINT64_MAX / 2 && section->sh_size <= UINT64_MAX / 2;
}

static void take_symbols(const struct elf_reader *reader, const struct sections *sections,
                         const Elf64_Shdr *section, struct elf_symbol_table *table)
{
    Elf64_Shdr strings;

    if (table->count > 0 || !has_bytes(section) || section->sh_entsize != sizeof(Elf64_Sym))
        return;
    if (!read_section(reader, sections, section->sh_link, &strings) || strings.sh_type != SHT_STRTAB ||
        !has_bytes(&strings))
        return;
    table->symbols = section->sh_offset;
    table->count = section->sh_size / sizeof(Elf64_Sym);
    table->strings = strings.sh_offset;
    table->strings_size = strings.sh_size;
}

static bool is_named(const struct elf_reader *reader, const Elf64_Shdr *names, const Elf64_Shdr *section,
                     const char *name, size_t size)
{
    char text[16];

    if (size > sizeof(text) || section->sh_name > names->sh_size || size > names->sh_size - section->sh_name)
        return false;
    return read_at(reader, names->sh_offset + section->sh_name, text, size) &&
           __builtin_memcmp(text, name, size) == 0;
}

static void take_section(const struct elf_reader *reader, const struct sections *sections,
                         const Elf64_Shdr *names, const Elf64_Shdr *section, struct elf_file *file)
{
    static const char eh_frame[] = ".eh_frame";

    switch (section->sh_type) {
    case SHT_SYMTAB:
        take_symbols(reader, sections, section, &file->symtab);
        break;
    case SHT_DYNSYM:
        take_symbols(reader, sections, section, &file->dynsym);
        break;
    case SHT_NOTE:
        if (file->build_id_size == 0 && has_bytes(section))
            read_build_id(reader, section->sh_offset, section->sh_size, section->sh_addralign, file->build_id,
                          &file->build_id_size);
        break;
    case SHT_PROGBITS:
    case SHT_X86_64_UNWIND: /* psABI, 4.2: the type that the psABI wants, and that some linkers write */
        if (file->eh_frame_size == 0 && (section->sh_flags & SHF_ALLOC) && has_bytes(section) &&
            is_named(reader, names, section, eh_frame, sizeof(eh_frame))) {
            file->eh_frame = section->sh_addr;
            file->eh_frame_size = section->sh_size;
        }
        break;
    default:
        break;
    }
}

static enum elf_status read_sections(const struct elf_reader *reader, const struct sections *sections,
                                     struct elf_file *file)
{
    Elf64_Shdr group[GROUP], names = {};

    /* Without names everything but .eh_frame is still found by type. */
    if (!read_section(reader, sections, sections->names, &names) || !has_bytes(&names))
        names.sh_size = 0;
    for (uint64_t i = 0; i < sections->count; i += GROUP) {
        uint64_t n = sections->count - i < GROUP ? sections->count - i : GROUP;

        if (!read_at(reader, sections->offset + i * sizeof(Elf64_Shdr), group,
                     (size_t)n * sizeof(Elf64_Shdr)))
            return ELF_UNREADABLE;
        for (uint64_t k = 0; k < n; k++)
            take_section(reader, sections, &names, &group[k], file);
    }
    return ELF_OK;
}

/* For files whose section headers were stripped: the build-id is also named by a program header. */
static void build_id_from_segments(const struct elf_reader *reader, const Elf64_Ehdr *ehdr,
                                   struct elf_file *file)
{
    struct image_scan scan = {};

    if (scan_phdrs(reader, ehdr, &scan) != ELF_OK)
        return;
    for (size_t i = 0; i < scan.n_notes && file->build_id_size == 0; i++) {
        if (scan.notes[i].p_offset <= UINT64_MAX / 2)
            read_build_id(reader, scan.notes[i].p_offset, scan.notes[i].p_filesz, scan.notes[i].p_align,
                          file->build_id, &file->build_id_size);
    }
}

enum elf_status elf_read_file(const struct elf_reader *reader, struct elf_file *ret_file)
{
    struct elf_file file = {};
    struct sections sections;
    Elf64_Ehdr ehdr;
    enum elf_status status;

    status = read_ehdr(reader, &ehdr);
    if (status == ELF_OK)
        status = find_sections(reader, &ehdr, &sections);
    if (status == ELF_OK)
        status = read_sections(reader, &sections, &file);
    if (status != ELF_OK)
        return status;
    if (file.build_id_size == 0)
        build_id_from_segments(reader, &ehdr, &file);
    *ret_file = file;
    return ELF_OK;
}
