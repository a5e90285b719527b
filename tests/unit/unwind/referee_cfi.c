/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every row of every FDE of some installed libraries, against libdw: boundaries, CFA and the rules of all 17
 * registers. Expressions are compared by their value on made-up registers and memory. Prints what was
 * compared, as TAP. Zone: tests.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unwind/file_image.h"
#include "unwind/cfi.h"
#include "unwind/ehframe.h"
#include "unwind/expr.h"
#include "unwind/rule.h"

#define N_COMPARED_REGS 17
#define MAX_SHOWN 20

struct counts {
    size_t fdes, rows, rules, expressions, compact, lookups, scans, differences;
};

static struct counts total;

/* Memory where every address has a value of its own. */
static uint64_t made_up(uint64_t address)
{
    return (address ^ 0x5bd1e995) * UINT64_C(0x9e3779b97f4a7c15) >> 3;
}

static bool read_made_up(void *context, uint64_t address, void *to, size_t size)
{
    uint64_t value = made_up(address);

    (void)context;
    memcpy(to, &value, size <= sizeof(value) ? size : sizeof(value));
    return size <= sizeof(value);
}

static void differ(struct counts *c, const struct cfi_row *row, const char *what)
{
    if (c->differences++ < MAX_SHOWN)
        printf("# row %#lx..%#lx: %s differs\n", (unsigned long)row->start, (unsigned long)row->end, what);
}

static uint64_t reg_value(unsigned reg)
{
    return 0x7f0000001000 + reg * 0x1230;
}

/* An evaluator for libdw's decoded operations; only what the libraries use. */
static bool evaluate(const Dwarf_Op *ops, size_t n, uint64_t cfa, uint64_t *ret, bool *ret_is_value)
{
    uint64_t stack[64], a;
    size_t depth = 0;

    *ret_is_value = false;
    for (size_t i = 0; i < n; i++) {
        uint8_t op = ops[i].atom;

        if (depth > 60)
            return false;
        if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
            stack[depth++] = op - DW_OP_lit0;
            continue;
        }
        if (op >= DW_OP_breg0 && op <= DW_OP_breg31) {
            stack[depth++] = reg_value(op - DW_OP_breg0) + ops[i].number;
            continue;
        }
        switch (op) {
        case DW_OP_call_frame_cfa:
            stack[depth++] = cfa;
            continue;
        case DW_OP_bregx:
            stack[depth++] = reg_value((unsigned)ops[i].number) + ops[i].number2;
            continue;
        case DW_OP_const1u:
        case DW_OP_const2u:
        case DW_OP_const4u:
        case DW_OP_constu:
        case DW_OP_const1s:
        case DW_OP_const2s:
        case DW_OP_const4s:
        case DW_OP_consts:
        case DW_OP_const8u:
        case DW_OP_const8s:
        case DW_OP_addr:
            stack[depth++] = ops[i].number;
            continue;
        case DW_OP_plus_uconst:
            stack[depth - 1] += ops[i].number;
            continue;
        case DW_OP_deref:
            stack[depth - 1] = made_up(stack[depth - 1]);
            continue;
        case DW_OP_dup:
            stack[depth] = stack[depth - 1];
            depth++;
            continue;
        case DW_OP_stack_value:
            *ret_is_value = true;
            continue;
        default:
            break;
        }
        a = stack[--depth];
        switch (op) {
        case DW_OP_and:
            stack[depth - 1] &= a;
            break;
        case DW_OP_or:
            stack[depth - 1] |= a;
            break;
        case DW_OP_plus:
            stack[depth - 1] += a;
            break;
        case DW_OP_minus:
            stack[depth - 1] -= a;
            break;
        case DW_OP_mul:
            stack[depth - 1] *= a;
            break;
        case DW_OP_shl:
            stack[depth - 1] <<= a;
            break;
        case DW_OP_ge:
            stack[depth - 1] = (int64_t)stack[depth - 1] >= (int64_t)a;
            break;
        default:
            printf("# operation %#x is missing in the referee\n", op);
            return false;
        }
    }
    *ret = stack[depth - 1];
    return depth > 0;
}

static struct uw_regs made_up_regs(void)
{
    struct uw_regs regs = {};

    for (unsigned reg = 0; reg < UW_N_REGS; reg++)
        uw_regs_set(&regs, reg, reg_value(reg));
    uw_regs_forget(&regs, 16);
    regs.pc = reg_value(16);
    return regs;
}

static bool our_cfa(const struct uw_space *space, const struct cfi_row *row, uint64_t *ret)
{
    struct uw_regs regs = made_up_regs();

    if (row->cfa_kind == CFI_CFA_REGISTER) {
        *ret = reg_value(row->cfa_register) + (uint64_t)row->cfa_value;
        return true;
    }
    return row->cfa_kind == CFI_CFA_EXPRESSION &&
           expr_evaluate(space, (uint64_t)row->cfa_value, &regs, NULL, ret) == UW_OK;
}

/* What is known of a register in the caller: undefined, same, at an address, or a value. */
enum outcome { UNDEFINED, SAME, AT, VALUE, BROKEN };

static enum outcome our_outcome(struct counts *c, const struct uw_space *space, const struct cfi_row *row,
                                unsigned reg, uint64_t cfa, uint64_t *ret)
{
    uint64_t value = (uint64_t)row->value[reg];
    struct uw_regs regs = made_up_regs();

    *ret = 0;
    switch (row->rule[reg]) {
    case CFI_UNSPECIFIED:
        *ret = reg == 16 ? cfa - 8 : reg == 7 ? cfa : 0;
        return reg == 16 ? AT : reg == 7 ? VALUE : (0xf048 >> reg & 1) ? SAME : UNDEFINED;
    case CFI_UNDEFINED:
        return UNDEFINED;
    case CFI_SAME_VALUE:
        return SAME;
    case CFI_OFFSET:
        *ret = cfa + value;
        return AT;
    case CFI_VAL_OFFSET:
        *ret = cfa + value;
        return VALUE;
    case CFI_REGISTER:
        *ret = reg_value((unsigned)value);
        return VALUE;
    case CFI_EXPRESSION:
    case CFI_VAL_EXPRESSION:
        c->expressions++;
        if (expr_evaluate(space, value, &regs, &cfa, ret) != UW_OK)
            return BROKEN;
        return row->rule[reg] == CFI_EXPRESSION ? AT : VALUE;
    default:
        return BROKEN;
    }
}

static enum outcome their_outcome(Dwarf_Frame *frame, unsigned reg, uint64_t cfa, uint64_t *ret)
{
    Dwarf_Op mem[3], *ops;
    size_t n;
    bool is_value;

    *ret = 0;
    if (dwarf_frame_register(frame, (int)reg, mem, &ops, &n) != 0)
        return BROKEN;
    if (n == 0)
        return ops == mem ? UNDEFINED : SAME;
    if (n == 1 && ops[0].atom == DW_OP_regx) {
        *ret = reg_value((unsigned)ops[0].number);
        return VALUE;
    }
    if (n == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31) {
        *ret = reg_value(ops[0].atom - DW_OP_reg0);
        return VALUE;
    }
    if (!evaluate(ops, n, cfa, ret, &is_value))
        return BROKEN;
    return is_value ? VALUE : AT;
}

/*
 * libdw's table of defaults (backends/x86_64_cfi.c, 0.188) names register 0 where its comment says %rbx. In
 * the psABI, figure 3.36, 0 is rax and 3 is rbx, and rbx is preserved across calls, rax is not. Only
 * unspecified rules are affected.
 */
static bool is_known_default(unsigned reg, enum outcome theirs)
{
    return (reg == 0 && theirs == SAME) || (reg == 3 && theirs == UNDEFINED);
}

/* Where the rule says a register is saved; CFA-relative, 0: it is not. */
static int64_t rule_offset(const struct uw_rule *rule, unsigned slot)
{
    return slot == 0 ? 0 : -8 * (int64_t)rule->depth + 8 * ((int64_t)slot - 1);
}

static void compare_rule(struct counts *c, const struct cfi_row *row)
{
    const struct uw_arch *arch = &uw_arch_x86_64;
    struct uw_rule rule;

    if (!rule_from_row(arch, row->start, row, &rule))
        return;
    c->compact++;
    if ((rule.return_slot == RULE_OUTERMOST) != (row->rule[16] == CFI_UNDEFINED))
        differ(c, row, "the end of the compact rule");
    if (rule.return_slot == RULE_OUTERMOST)
        return;
    if (rule.pc != row->start || rule.cfa_register != row->cfa_register || rule.cfa_offset != row->cfa_value)
        differ(c, row, "the CFA of the compact rule");
    if (rule_offset(&rule, rule.return_slot) != (row->rule[16] == CFI_OFFSET ? row->value[16] : -8))
        differ(c, row, "the return address of the compact rule");
    for (unsigned k = 0; k < arch->n_saved; k++) {
        unsigned reg = arch->saved[k];

        if (rule.slot[k] > rule.n_words ||
            rule_offset(&rule, rule.slot[k]) != (row->rule[reg] == CFI_OFFSET ? row->value[reg] : 0))
            differ(c, row, "a register of the compact rule");
    }
}

static void compare_row(struct counts *c, const struct uw_space *space, const struct cfi_row *row,
                        Dwarf_Frame *frame)
{
    uint64_t ours, theirs;
    Dwarf_Op *ops;
    size_t n;
    bool is_value;
    uint64_t cfa;

    if (row->cfa_kind == CFI_CFA_EXPRESSION)
        c->expressions++;
    if (!our_cfa(space, row, &cfa) || dwarf_frame_cfa(frame, &ops, &n) != 0 ||
        !evaluate(ops, n, 0, &theirs, &is_value) || cfa != theirs) {
        differ(c, row, "CFA");
        return;
    }
    for (unsigned reg = 0; reg < N_COMPARED_REGS; reg++) {
        enum outcome a = our_outcome(c, space, row, reg, cfa, &ours),
                     b = their_outcome(frame, reg, cfa, &theirs);
        char what[32];

        c->rules++;
        if (a == b && a != BROKEN && ours == theirs)
            continue;
        if (row->rule[reg] == CFI_UNSPECIFIED && is_known_default(reg, b))
            continue;
        snprintf(what, sizeof(what), "r%u (%d, %d)", reg, a, b);
        differ(c, row, what);
    }
}

static void compare_fde(struct counts *c, const struct uw_space *space, const struct eh_fde *fde,
                        Dwarf_CFI *cfi)
{
    for (uint64_t pc = fde->start; pc < fde->end;) {
        struct cfi_row row = {.start = pc};
        Dwarf_Frame *frame = NULL;
        Dwarf_Addr start, end;
        bool signal_frame;
        int ra;

        if (cfi_row_at(space, fde, pc, &row) != UW_OK || dwarf_cfi_addrframe(cfi, pc, &frame) != 0) {
            differ(c, &row, "whether there is a row");
            return;
        }
        ra = dwarf_frame_info(frame, &start, &end, &signal_frame);
        /* DW_CFA_restore_state takes libdw's start back, too; each row must begin where the one before ended.
         */
        if (row.start != pc || row.end != end || start > pc)
            differ(c, &row, "boundary");
        if (fde->cie.signal_frame != signal_frame || fde->cie.return_address != (uint64_t)ra)
            differ(c, &row, "signal frame mark or return address column");
        compare_row(c, space, &row, frame);
        compare_rule(c, &row);
        c->rows++;
        free(frame);
        if (row.end <= pc)
            return;
        pc = row.end;
    }
}

static void compare_lookup(struct counts *c, const struct file_image *image, const struct eh_fde *fde,
                           uint64_t pc)
{
    struct eh_fde found;
    struct cfi_row row = {.start = pc};

    c->lookups++;
    if (eh_find_fde(&image->space, &image->module, pc, &found) != UW_OK || found.start != fde->start ||
        found.end != fde->end || found.program != fde->program || found.cie.address != fde->cie.address)
        differ(c, &row, "lookup");
}

/* A scan is linear: some FDEs from all over the file stand for the others. */
#define N_SCANS 40

static void compare_scan(struct counts *c, const struct file_image *image, const struct eh_fde *fde)
{
    struct uw_module module = image->module;
    struct eh_fde found;
    struct cfi_row row = {.start = fde->start};

    c->scans++;
    module.eh_frame_hdr_size = 0;
    if (eh_find_fde(&image->space, &module, fde->end - 1, &found) != UW_OK || found.program != fde->program)
        differ(c, &row, "scan");
}

static size_t count_fdes(Elf *elf, uint64_t address)
{
    Elf_Scn *section = NULL;
    size_t n = 0;

    while ((section = elf_nextscn(elf, section))) {
        GElf_Shdr mem, *header = gelf_getshdr(section, &mem);
        Elf_Data *data;
        Dwarf_Off at = 0, next;
        Dwarf_CFI_Entry entry;

        if (header->sh_addr != address || header->sh_type == SHT_NOBITS)
            continue;
        data = elf_getdata(section, NULL);
        while (dwarf_next_cfi((const unsigned char *)elf_getident(elf, NULL), data, true, at, &next,
                              &entry) == 0) {
            if (entry.CIE_id != DW_CIE_ID_64)
                n++;
            at = next;
        }
        return n;
    }
    return 0;
}

static struct counts compare_file(const char *path)
{
    struct file_image image;
    struct counts c = {};
    struct eh_record record = {};
    uint64_t at, limit;
    size_t n, step;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
    Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);

    if (!cfi || !file_image_open(&image, path)) {
        c.differences = 1;
        return c;
    }
    image.space.read_stack = read_made_up;
    at = image.module.eh_frame;
    limit = at + image.module.eh_frame_size;
    n = count_fdes(elf, image.file.eh_frame);
    step = n / N_SCANS + 1;
    while (at + 4 <= limit &&
           eh_read_record(&image.space, at, limit, &record, record.fde.cie.address) == UW_OK &&
           record.next != 0) {
        at = record.next;
        if (!record.is_fde || record.fde.start == record.fde.end)
            continue;
        c.fdes++;
        compare_fde(&c, &image.space, &record.fde, cfi);
        compare_lookup(&c, &image, &record.fde, record.fde.start);
        compare_lookup(&c, &image, &record.fde, record.fde.end - 1);
        if (c.fdes % step == 1 || step == 1)
            compare_scan(&c, &image, &record.fde);
    }
    if (c.fdes == 0 || c.fdes != n) {
        printf("# FDEs: %zu here, %zu in libdw\n", c.fdes, n);
        c.differences++;
    }
    dwarf_cfi_end(cfi);
    elf_end(elf);
    close(fd);
    file_image_close(&image);
    return c;
}

int main(int argc, char **argv)
{
    int number = 0;

    elf_version(EV_CURRENT);
    for (int i = 1; i < argc; i++) {
        struct counts c;

        if (access(argv[i], R_OK) != 0) {
            printf("ok %d - %s # SKIP not installed\n", ++number, argv[i]);
            continue;
        }
        c = compare_file(argv[i]);
        printf("# %zu FDEs, %zu rows (%zu compact), %zu rules, %zu expressions, %zu lookups, %zu scans: %zu "
               "differences\n",
               c.fdes, c.rows, c.compact, c.rules, c.expressions, c.lookups, c.scans, c.differences);
        printf("%sok %d - %s\n", c.differences ? "not " : "", ++number, argv[i]);
        total.rows += c.rows;
        total.rules += c.rules;
        total.differences += c.differences;
    }
    printf("# all: %zu rows, %zu rules, %zu differences\n", total.rows, total.rules, total.differences);
    printf("1..%d\n", number);
    return total.differences > 0 || total.rows == 0;
}
