/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From an address to its frame description: .eh_frame_hdr, .eh_frame, CIE and FDE
 * (Linux Standard Base Core 5.0, 10.6; DWARF 5, 6.4.1).
 * Zone: pure. Used by step.c and the tests.
 */
#ifndef UNWIND_EHFRAME_H
#define UNWIND_EHFRAME_H

#include "unwind/unwind.h"

/* What unwinding needs of a Common Information Entry. Addresses are run-time addresses. */
struct eh_cie {
    uint64_t address;
    uint64_t program, program_end; /* initial instructions */
    uint64_t code_align;
    int64_t data_align;
    uint64_t return_address; /* register number, not range-checked */
    uint8_t encoding;        /* of addresses in the FDEs (augmentation R) */
    bool sized_augmentation; /* z */
    bool signal_frame;       /* S: the caller was interrupted, its pc is exact */
    bool pauth_b_key;        /* B (AArch64) */
};

/* A Frame Description Entry, with its CIE. */
struct eh_fde {
    struct eh_cie cie;
    uint64_t start, end; /* code range */
    uint64_t program, program_end;
};

/*
 * eh_find_fde() - the FDE that covers pc
 *
 * Binary search where the module has a sorted table, else a scan of .eh_frame.
 * Return: UW_OK, UW_NO_CFI (nothing covers pc), UW_BAD_CFI or UW_TABLE_UNREADABLE.
 */
enum uw_status eh_find_fde(const struct uw_space *space, const struct uw_module *module, uint64_t pc,
                           struct eh_fde *ret_fde);

/* One record of .eh_frame, for readers that walk all of it. */
struct eh_record {
    uint64_t next; /* address of the record behind; 0: this was the terminator */
    bool is_fde;   /* else a CIE, and fde is not set */
    struct eh_fde fde;
};

/*
 * eh_read_record() - parse the record at @address
 * @limit:  first address that does not belong to the section
 * @cie_at: address of the CIE that @record->fde.cie holds from an earlier call, or 0
 */
enum uw_status eh_read_record(const struct uw_space *space, uint64_t address, uint64_t limit,
                              struct eh_record *record, uint64_t cie_at);

struct span;

/* DW_EH_PE_omit: no value is present. */
#define EH_PE_OMIT 0xff

/*
 * eh_read_pointer() - an encoded pointer (LSB 10.5.1)
 * @data_base: what a datarel value is relative to; 0: not known, such a value is bad
 *
 * Failure is noted in the span.
 */
uint64_t eh_read_pointer(struct span *span, uint8_t encoding, uint64_t data_base);

#endif
