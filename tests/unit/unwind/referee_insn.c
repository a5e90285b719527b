/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every instruction of every function that the unwind tables of some installed files know, against capstone:
 * length, targets, and whether and how rsp and rbp change. Prints what was compared, as TAP. Zone: tests.
 */
#include <capstone/capstone.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/unwind/file_image.h"
#include "unwind/ehframe.h"
#include "unwind/insn.h"

#define MAX_SHOWN 20

struct counts {
    size_t functions, instructions, known, unchecked, differences;
};

static csh handle;
static cs_insn *theirs;

static void differ(struct counts *c, uint64_t at, const struct insn *ours, const char *what)
{
    if (c->differences++ < MAX_SHOWN)
        printf("# %#lx %s %s (%u bytes): %s differs; ours: kind %d, %u bytes, value %ld\n", (unsigned long)at,
               theirs->mnemonic, theirs->op_str, theirs->size, what, (int)ours->kind, ours->length,
               (long)ours->value);
}

static bool is(const char *mnemonic)
{
    return strcmp(theirs->mnemonic, mnemonic) == 0;
}

static bool ends_with(const char *word)
{
    size_t n = strlen(theirs->mnemonic), k = strlen(word);

    return n >= k && strcmp(theirs->mnemonic + n - k, word) == 0;
}

static const cs_x86_op *operand(unsigned i)
{
    return &theirs->detail->x86.operands[i];
}

static bool operand_is(unsigned i, x86_reg reg)
{
    return i < theirs->detail->x86.op_count && operand(i)->type == X86_OP_REG && operand(i)->reg == reg;
}

static bool writes(x86_reg whole, x86_reg half, x86_reg quarter, x86_reg byte)
{
    cs_regs read, written;
    uint8_t n_read, n_written;

    if (cs_regs_access(handle, theirs, read, &n_read, written, &n_written) != CS_ERR_OK)
        return false;
    for (uint8_t i = 0; i < n_written; i++)
        if (written[i] == whole || written[i] == half || written[i] == quarter || written[i] == byte)
            return true;
    return false;
}

/* capstone knows where control goes by groups and mnemonics. */
static enum insn_kind flow(int64_t *ret_value)
{
    const cs_x86_op *op = operand(0);
    bool call = cs_insn_group(handle, theirs, CS_GRP_CALL);
    bool jump = cs_insn_group(handle, theirs, CS_GRP_JUMP) || is("loop") || is("xbegin");

    *ret_value = 0;
    if (ends_with("ret"))
        return INSN_RETURN;
    if (is("ud2") || is("hlt") || is("int3"))
        return INSN_STOP;
    if ((!call && !jump) || theirs->detail->x86.op_count != 1)
        return INSN_OTHER;
    if (op->type == X86_OP_IMM) {
        *ret_value = op->imm;
        return call ? INSN_CALL : ends_with("jmp") ? INSN_JUMP : INSN_BRANCH;
    }
    if (op->type == X86_OP_MEM && op->mem.base == X86_REG_RIP) {
        *ret_value = (int64_t)theirs->address + theirs->size + op->mem.disp;
        return call ? INSN_CALL_SLOT : INSN_JUMP_SLOT;
    }
    return call ? INSN_CALL_INDIRECT : INSN_JUMP_INDIRECT;
}

/* How rsp or rbp changes, by capstone's operands. */
static enum insn_kind pointers(int64_t *ret_value)
{
    const cs_x86_op *source = operand(1);
    bool memory = theirs->detail->x86.op_count == 2 && source->type == X86_OP_MEM && source->mem.index == 0;

    *ret_value = 0;
    if (is("push") || is("pushfq") || is("pop") || is("popfq")) {
        if (is("pop") && operand_is(0, X86_REG_RSP))
            return INSN_SP_UNKNOWN;
        *ret_value = theirs->mnemonic[1] == 'u' ? -8 : 8;
        return is("pop") && operand_is(0, X86_REG_RBP) ? INSN_POP_FRAME : INSN_SP_ADD;
    }
    if (is("leave"))
        return INSN_LEAVE;
    if (operand_is(0, X86_REG_RSP)) {
        bool immediate = source->type == X86_OP_IMM;

        if ((is("add") || is("sub")) && immediate) {
            *ret_value = is("add") ? source->imm : -source->imm;
            return INSN_SP_ADD;
        }
        if (is("and") && immediate) {
            *ret_value = -source->imm;
            return INSN_SP_ALIGN;
        }
        if (is("lea") && memory && (source->mem.base == X86_REG_RSP || source->mem.base == X86_REG_RBP)) {
            *ret_value = source->mem.disp;
            return source->mem.base == X86_REG_RSP ? INSN_SP_ADD : INSN_SP_FROM_FRAME;
        }
        if (is("mov") && operand_is(1, X86_REG_RBP))
            return INSN_SP_FROM_FRAME;
    }
    if (operand_is(0, X86_REG_RBP)) {
        if (is("lea") && memory && source->mem.base == X86_REG_RSP) {
            *ret_value = source->mem.disp;
            return INSN_FRAME_FROM_SP;
        }
        if (is("mov") && operand_is(1, X86_REG_RSP))
            return INSN_FRAME_FROM_SP;
    }
    if (writes(X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL))
        return INSN_SP_UNKNOWN;
    if (writes(X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL))
        return INSN_FRAME_UNKNOWN;
    if (is("lea") && memory && source->mem.base == X86_REG_RBP && operand(0)->size == 8) {
        *ret_value = source->mem.disp;
        return INSN_LEA_FRAME;
    }
    return INSN_OTHER;
}

static void compare(struct counts *c, uint64_t at, const struct insn *ours)
{
    int64_t value;
    enum insn_kind kind = flow(&value);

    if (theirs->size != ours->length) {
        differ(c, at, ours, "length");
        return;
    }
    if (ours->kind == INSN_LEA || ours->kind == INSN_LOAD) {
        if (!operand_is(0, X86_REG_RDI) && !operand_is(0, X86_REG_EDI))
            differ(c, at, ours, "kind");
        return;
    }
    if (kind == INSN_OTHER)
        kind = pointers(&value);
    if (kind != ours->kind)
        differ(c, at, ours, "kind");
    else if (value != ours->value)
        differ(c, at, ours, "value");
}

static void compare_function(struct counts *c, const struct file_image *image, const struct eh_fde *fde)
{
    uint64_t at = fde->start;

    c->functions++;
    while (at < fde->end && fde->end <= image->memory_size) {
        const uint8_t *code = image->memory + at;
        size_t size = fde->end - at;
        uint64_t address = at;
        struct insn ours;

        c->instructions++;
        if (!insn_decode(code, size, at, &ours)) {
            /* Go on where capstone says, if it does. */
            if (!cs_disasm_iter(handle, &code, &size, &address, theirs))
                return;
            at = address;
            continue;
        }
        c->known++;
        if (cs_disasm_iter(handle, &code, &size, &address, theirs))
            compare(c, at, &ours);
        else
            c->unchecked++;
        at += ours.length;
    }
}

static struct counts compare_file(const char *path)
{
    struct counts c = {0};
    struct file_image image;
    struct eh_record record = {0};
    uint64_t at, limit;

    if (!file_image_open(&image, path)) {
        c.differences++;
        return c;
    }
    at = image.module.eh_frame;
    limit = at + image.module.eh_frame_size;
    while (at + 4 <= limit &&
           eh_read_record(&image.space, at, limit, &record, record.fde.cie.address) == UW_OK &&
           record.next != 0) {
        at = record.next;
        if (record.is_fde)
            compare_function(&c, &image, &record.fde);
    }
    file_image_close(&image);
    return c;
}

int main(int argc, char **argv)
{
    size_t instructions = 0, differences = 0;
    int number = 0;

    if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
        return 1;
    cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
    theirs = cs_malloc(handle);
    for (int i = 1; i < argc; i++) {
        struct counts c;

        if (access(argv[i], R_OK) != 0) {
            printf("ok %d - %s # SKIP not installed\n", ++number, argv[i]);
            continue;
        }
        c = compare_file(argv[i]);
        printf("# %zu functions, %zu instructions: %.4f %% known, %zu that capstone does not know, %zu "
               "differences\n",
               c.functions, c.instructions,
               100.0 * (double)c.known / (double)(c.instructions + !c.instructions), c.unchecked,
               c.differences);
        printf("%sok %d - %s\n", c.differences || c.known * 1000 < c.instructions * 995 ? "not " : "",
               ++number, argv[i]);
        instructions += c.instructions;
        differences += c.differences;
    }
    printf("1..%d\n", number);
    cs_free(theirs, 1);
    cs_close(&handle);
    return differences > 0 || instructions == 0;
}
