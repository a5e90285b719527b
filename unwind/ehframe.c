/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finding and reading frame descriptions. Tables are read through small buffers and never as a whole: they
 * may be megabytes long, and hostile in every byte.
 * Zone: pure.
 */
#include "unwind/ehframe.h"

#include "unwind/span.h"

/* LSB 10.5.1, DWARF exception header encoding: format in the low nibble, application above. */
enum {
    PE_ABSPTR = 0x00,
    PE_ULEB128 = 0x01,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SLEB128 = 0x09,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORMAT = 0x0f,

    PE_PCREL = 0x10,
    PE_DATAREL = 0x30,
    PE_ALIGNED = 0x50,
    PE_APPLICATION = 0x70,
    PE_INDIRECT = 0x80,
};

/* Bounds of a linear scan: the largest programs we know (browsers) have some 600,000 FDEs. */
#define MAX_RECORDS (UINT64_C(1) << 20)
/* No compiler writes records near this size; with it no sum of an address and a length wraps. */
#define MAX_RECORD_SIZE (UINT64_C(1) << 30)
#define SCAN_BUFFER_SIZE 2048
/* Entries of the search table read in one go once the range is that small. */
#define HDR_BLOCK 16
/* Augmentation strings are a handful of letters. */
#define MAX_AUGMENTATION 16

static uint64_t read_format(struct span *span, uint8_t format)
{
    switch (format) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        return span_unsigned(span, 8);
    case PE_ULEB128:
        return span_uleb(span);
    case PE_SLEB128:
        return (uint64_t)span_sleb(span);
    case PE_UDATA2:
        return span_unsigned(span, 2);
    case PE_SDATA2:
        return (uint64_t)span_signed(span, 2);
    case PE_UDATA4:
        return span_unsigned(span, 4);
    case PE_SDATA4:
        return (uint64_t)span_signed(span, 4);
    default:
        span_fail(span, UW_BAD_CFI);
        return 0;
    }
}

uint64_t eh_read_pointer(struct span *span, uint8_t encoding, uint64_t data_base)
{
    uint64_t base = 0, value;

    if (encoding == EH_PE_OMIT) {
        span_fail(span, UW_BAD_CFI);
        return 0;
    }
    switch (encoding & PE_APPLICATION) {
    case 0:
        break;
    case PE_PCREL:
        base = span->address;
        break;
    case PE_DATAREL:
        base = data_base;
        if (base == 0)
            span_fail(span, UW_BAD_CFI);
        break;
    case PE_ALIGNED:
        span_skip(span, -span->address & 7);
        break;
    default: /* textrel, funcrel: nothing on Linux writes them here */
        span_fail(span, UW_BAD_CFI);
        break;
    }
    value = base + read_format(span, encoding & PE_FORMAT);
    if ((encoding & PE_INDIRECT) && span_ok(span) &&
        !span->space->read_table(span->space->context, value, &value, sizeof(value)))
        span_fail(span, UW_TABLE_UNREADABLE);
    return span_ok(span) ? value : 0;
}

/*
 * The 4- or 12-byte length in front of each record. Narrows the span to the record; false at the terminator.
 */
static bool read_length(struct span *span)
{
    uint64_t length = span_unsigned(span, 4);

    if (length == 0xffffffff)
        length = span_unsigned(span, 8);
    if (!span_ok(span) || length == 0)
        return false;
    if (length > MAX_RECORD_SIZE || length > span_left(span)) {
        span_fail(span, UW_BAD_CFI);
        return false;
    }
    span->end = span->address + length;
    return true;
}

/*
 * The data of the augmentation letters behind 'z'. Unknown letters end it: the length tells where to go on.
 */
static void read_augmentation(struct span *span, const char *letters, struct eh_cie *cie)
{
    for (; *letters != '\0'; letters++) {
        switch (*letters) {
        case 'R':
            cie->encoding = span_u8(span);
            break;
        case 'L':
            (void)span_u8(span);
            break;
        case 'P': {
            /*
             * The personality's value is of no interest, its size is; what it points to need not be readable.
             */
            uint8_t encoding = span_u8(span);
            bool aligned = (encoding & PE_APPLICATION) == PE_ALIGNED;

            if (encoding != EH_PE_OMIT)
                (void)eh_read_pointer(span, (encoding & PE_FORMAT) | (aligned ? PE_ALIGNED : 0), 0);
            break;
        }
        case 'S':
            cie->signal_frame = true;
            break;
        case 'B':
            cie->pauth_b_key = true;
            break;
        case 'G': /* AArch64 memory tagging: no data */
            break;
        default:
            return;
        }
    }
}

static void read_letters(struct span *span, char letters[MAX_AUGMENTATION])
{
    for (unsigned i = 0; i < MAX_AUGMENTATION; i++) {
        letters[i] = (char)span_u8(span);
        if (letters[i] == '\0' && span_ok(span))
            return;
    }
    letters[0] = '\0';
    span_fail(span, UW_BAD_CFI);
}

/* Behind length and id. */
static void read_cie_body(struct span *span, struct eh_cie *cie)
{
    char letters[MAX_AUGMENTATION];
    uint8_t version = span_u8(span);

    read_letters(span, letters);
    if (version != 1 && version != 3 && version != 4)
        span_fail(span, UW_BAD_CFI);
    /* gcc 2 wrote the string "eh" and a pointer to its exception table. */
    if (letters[0] == 'e' && letters[1] == 'h' && letters[2] == '\0')
        span_skip(span, 8);
    else if (letters[0] != '\0' && letters[0] != 'z')
        span_fail(span, UW_BAD_CFI);
    if (version == 4) {
        uint8_t address_size = span_u8(span), segment_size = span_u8(span);

        if (address_size != 8 || segment_size != 0)
            span_fail(span, UW_BAD_CFI);
    }
    cie->code_align = span_uleb(span);
    cie->data_align = span_sleb(span);
    cie->return_address = version == 1 ? span_u8(span) : span_uleb(span);
    if (letters[0] == 'z') {
        uint64_t size = span_uleb(span), data = span->address;

        cie->sized_augmentation = true;
        if (size > span_left(span)) {
            span_fail(span, UW_BAD_CFI);
            return;
        }
        read_augmentation(span, letters + 1, cie);
        /* Data beyond its size makes this a skip that no span can hold. */
        span_skip(span, data + size - span->address);
    }
    cie->program = span->address;
    cie->program_end = span->end;
}

static enum uw_status read_cie(const struct uw_space *space, uint64_t address, uint64_t limit,
                               struct eh_cie *ret)
{
    uint8_t buffer[SPAN_BUFFER_SIZE];
    struct span span;

    *ret = (struct eh_cie){.address = address};
    span_init(&span, space, address, limit, buffer, sizeof(buffer));
    if (!read_length(&span) || span_unsigned(&span, 4) != 0)
        span_fail(&span, UW_BAD_CFI);
    read_cie_body(&span, ret);
    return span.status;
}

/* Behind length and CIE pointer. */
static void read_fde_body(struct span *span, struct eh_fde *fde)
{
    uint64_t size;

    fde->start = eh_read_pointer(span, fde->cie.encoding, 0);
    /* The size of the range has the format of the address, but stands for itself. */
    size = read_format(span, fde->cie.encoding & PE_FORMAT);
    fde->end = fde->start + size;
    if (fde->end < fde->start)
        span_fail(span, UW_BAD_CFI);
    if (fde->cie.sized_augmentation)
        span_skip(span, span_uleb(span));
    fde->program = span->address;
    fde->program_end = span->end;
}

/* The span stands at the record and reaches to the end of the section; afterwards it is spent. */
static void read_record(struct span *span, struct eh_record *record, uint64_t cie_at)
{
    uint64_t limit = span->end, at, distance;

    record->next = 0;
    record->is_fde = false;
    if (!read_length(span))
        return;
    record->next = span->end;
    /*
     * LSB 10.6.1: 4 bytes also behind an extended length, unlike .debug_frame; relative to this field itself.
     */
    at = span->address;
    distance = span_unsigned(span, 4);
    if (!span_ok(span) || distance == 0)
        return;
    record->is_fde = true;
    if (distance > at) {
        span_fail(span, UW_BAD_CFI);
        return;
    }
    if (at - distance != cie_at || cie_at == 0) {
        enum uw_status status = read_cie(span->space, at - distance, limit, &record->fde.cie);

        if (status != UW_OK) {
            record->fde.cie.address = 0;
            span_fail(span, status);
            return;
        }
    }
    read_fde_body(span, &record->fde);
}

enum uw_status eh_read_record(const struct uw_space *space, uint64_t address, uint64_t limit,
                              struct eh_record *record, uint64_t cie_at)
{
    uint8_t buffer[SPAN_BUFFER_SIZE];
    struct span span;

    span_init(&span, space, address, limit, buffer, sizeof(buffer));
    read_record(&span, record, cie_at);
    return span.status;
}

/* A damaged record whose length is sound is skipped: the one that covers pc may still be good. */
static enum uw_status scan_section(const struct uw_space *space, uint64_t section, uint64_t limit,
                                   uint64_t pc, struct eh_fde *ret)
{
    uint8_t buffer[SCAN_BUFFER_SIZE];
    struct eh_record record = {};
    struct span span;

    span_init(&span, space, section, limit, buffer, sizeof(buffer));
    for (uint64_t i = 0; i < MAX_RECORDS && span_left(&span) >= 4; i++) {
        read_record(&span, &record, record.fde.cie.address);
        if (record.next == 0)
            return span_ok(&span) ? UW_NO_CFI : span.status;
        if (span_ok(&span) && record.is_fde && pc >= record.fde.start && pc < record.fde.end) {
            *ret = record.fde;
            return UW_OK;
        }
        span.status = UW_OK;
        span.end = limit;
        span_skip(&span, record.next - span.address);
    }
    return UW_NO_CFI;
}

struct hdr_entry {
    int32_t start, fde; /* relative to .eh_frame_hdr */
};

/* LSB 10.6.2. */
struct hdr {
    uint64_t address;
    uint64_t eh_frame; /* 0: not given */
    uint64_t table, count;
    bool sorted; /* there is a table in the one form that every linker writes */
};

static enum uw_status read_hdr(const struct uw_space *space, const struct uw_module *module, struct hdr *ret)
{
    uint8_t buffer[SPAN_BUFFER_SIZE], version, pointer_encoding, count_encoding, table_encoding;
    struct span span;

    *ret = (struct hdr){.address = module->eh_frame_hdr};
    span_init(&span, space, module->eh_frame_hdr, module->eh_frame_hdr + module->eh_frame_hdr_size, buffer,
              sizeof(buffer));
    version = span_u8(&span);
    pointer_encoding = span_u8(&span);
    count_encoding = span_u8(&span);
    table_encoding = span_u8(&span);
    if (version != 1)
        span_fail(&span, UW_BAD_CFI);
    if (pointer_encoding != EH_PE_OMIT)
        ret->eh_frame = eh_read_pointer(&span, pointer_encoding, ret->address);
    if (!span_ok(&span))
        return span.status;
    if (count_encoding == EH_PE_OMIT || table_encoding != (PE_DATAREL | PE_SDATA4))
        return UW_OK;
    ret->count = eh_read_pointer(&span, count_encoding, ret->address);
    ret->table = span.address;
    ret->sorted = span_ok(&span) && ret->count > 0;
    if (ret->sorted && ret->count > span_left(&span) / sizeof(struct hdr_entry))
        ret->sorted = false; /* truncated: the order of the rest proves nothing */
    return UW_OK;
}

static bool read_entries(const struct uw_space *space, const struct hdr *hdr, uint64_t index, size_t n,
                         struct hdr_entry *to)
{
    return space->read_table(space->context, hdr->table + index * sizeof(*to), to, n * sizeof(*to));
}

/* The last entry that starts at or below pc: halve until one block holds the rest. */
static enum uw_status search_table(const struct uw_space *space, const struct hdr *hdr, uint64_t pc,
                                   uint64_t *ret_fde)
{
    struct hdr_entry block[HDR_BLOCK];
    uint64_t low = 0, n = hdr->count;
    size_t i = 0;

    while (n > HDR_BLOCK) {
        uint64_t half = n / 2;

        if (!read_entries(space, hdr, low + half, 1, block))
            return UW_TABLE_UNREADABLE;
        if (hdr->address + (uint64_t)(int64_t)block[0].start <= pc) {
            low += half;
            n -= half;
        } else {
            n = half;
        }
    }
    if (!read_entries(space, hdr, low, (size_t)n, block))
        return UW_TABLE_UNREADABLE;
    while (i < n && hdr->address + (uint64_t)(int64_t)block[i].start <= pc)
        i++;
    if (i == 0)
        return UW_NO_CFI;
    *ret_fde = hdr->address + (uint64_t)(int64_t)block[i - 1].fde;
    return UW_OK;
}

static enum uw_status find_by_table(const struct uw_space *space, const struct hdr *hdr, uint64_t pc,
                                    struct eh_fde *ret)
{
    struct eh_record record;
    enum uw_status status;
    uint64_t address;

    status = search_table(space, hdr, pc, &address);
    if (status == UW_OK)
        status = eh_read_record(space, address, address + MAX_RECORD_SIZE, &record, 0);
    if (status != UW_OK)
        return status;
    if (record.next == 0 || !record.is_fde)
        return UW_BAD_CFI;
    if (pc < record.fde.start || pc >= record.fde.end)
        return UW_NO_CFI;
    *ret = record.fde;
    return UW_OK;
}

enum uw_status eh_find_fde(const struct uw_space *space, const struct uw_module *module, uint64_t pc,
                           struct eh_fde *ret_fde)
{
    uint64_t section = module->eh_frame, limit = section + module->eh_frame_size;
    struct hdr hdr = {};
    enum uw_status status = UW_NO_CFI;

    if (module->eh_frame_hdr_size > 0) {
        status = read_hdr(space, module, &hdr);
        if (status == UW_OK && hdr.sorted)
            return find_by_table(space, &hdr, pc, ret_fde);
    }
    if (module->eh_frame_size == 0) {
        /* Only the start is known: a terminator, or the end of the module, ends the section. */
        section = hdr.eh_frame;
        limit = module->end;
    }
    if (section == 0 || section >= limit)
        return status != UW_OK ? status : UW_NO_CFI;
    return scan_section(space, section, limit, pc, ret_fde);
}
