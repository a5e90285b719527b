/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The control flow of the functions of some installed files against their unwind tables, which say the same
 * about the stack pointer wherever the CFA is counted from it, and about the frame pointer where it is not.
 * Prints what was compared, as TAP. Zone: tests.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/unwind/file_image.h"
#include "unwind/cfi.h"
#include "unwind/code.h"
#include "unwind/flow.h"

#define MAX_SHOWN 20
#define CALLS_PER_FUNCTION 6

struct counts {
    size_t functions, by_sp, by_frame, exact, aligned, variable, unknown, moved, differences;
};

static struct flow_memory memory;

static void differ(struct counts *c, uint64_t at, const struct cfi_row *row, const struct flow *flow)
{
    if (c->differences++ < MAX_SHOWN)
        printf("# %#lx: the table says register %u + %ld, the flow kind %d, depth %d, frame %d%s\n",
               (unsigned long)at, row->cfa_register, (long)row->cfa_value, (int)flow->kind, flow->depth,
               flow->frame, flow->jump_table ? ", by a jump table" : "");
}

/*
 * A part that was moved out of its function (.cold) and holds code from before and from behind the prologue
 * begins like a function, and then its table changes by itself. Recovery notices by the same sign: there is
 * no prologue that sets rbp.
 */
static bool is_moved(const struct flow *flow, const struct cfi_row *row)
{
    return flow->kind == FLOW_NO_FRAME && flow->depth == 8 &&
           (row->cfa_register == UW_X86_64_RBP || row->cfa_value > 8);
}

/* @at: behind a call. */
static void compare(struct counts *c, const struct file_image *image, const struct eh_fde *fde, uint64_t at)
{
    struct flow flow = flow_find(&image->space, &memory, fde, at, true);
    struct cfi_row row;

    if (cfi_row_at(&image->space, fde, at - 1, &row) != UW_OK || row.cfa_kind != CFI_CFA_REGISTER)
        return;
    if (row.rule[UW_X86_64_RA] == CFI_UNDEFINED) /* _start returns nowhere and counts as it likes */
        return;
    if (is_moved(&flow, &row)) {
        c->moved++;
        return;
    }
    if (row.cfa_register == UW_X86_64_RSP) {
        c->by_sp++;
        if (flow.kind == FLOW_UNKNOWN || flow.kind == FLOW_VARIABLE)
            c->unknown++;
        else if (flow.depth != row.cfa_value || flow.alignment)
            differ(c, at, &row, &flow);
    } else if (row.cfa_register == UW_X86_64_RBP) {
        c->by_frame++;
        c->exact += flow.kind == FLOW_EXACT;
        c->aligned += flow.kind == FLOW_ALIGNED;
        c->variable += flow.kind == FLOW_VARIABLE;
        if (flow.kind == FLOW_UNKNOWN)
            c->unknown++;
        else if (flow.kind == FLOW_NO_FRAME || (flow.frame != row.cfa_value && flow.kind != FLOW_VARIABLE))
            differ(c, at, &row, &flow);
    }
}

static void compare_function(struct counts *c, const struct file_image *image, const struct eh_fde *fde)
{
    struct code_window window = {.space = &image->space};
    unsigned n = 0;
    struct insn insn;

    c->functions++;
    for (uint64_t at = fde->start; at < fde->end && n < CALLS_PER_FUNCTION; at += insn.length) {
        if (!code_at(&window, at, fde->end, &insn))
            return;
        if (code_is_call(insn.kind)) {
            compare(c, image, fde, at + insn.length);
            n++;
        }
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
    size_t compared = 0, differences = 0;
    int number = 0;

    for (int i = 1; i < argc; i++) {
        struct counts c;

        if (access(argv[i], R_OK) != 0) {
            printf("ok %d - %s # SKIP not installed\n", ++number, argv[i]);
            continue;
        }
        c = compare_file(argv[i]);
        printf("# %zu functions; calls: %zu by rsp, %zu by rbp (%zu exact, %zu aligned, %zu variable), %zu "
               "unknown, "
               "%zu in moved parts, %zu differences\n",
               c.functions, c.by_sp, c.by_frame, c.exact, c.aligned, c.variable, c.unknown, c.moved,
               c.differences);
        printf("%sok %d - %s\n", c.differences ? "not " : "", ++number, argv[i]);
        compared += c.by_sp + c.by_frame;
        differences += c.differences;
    }
    printf("1..%d\n", number);
    return differences > 0 || compared == 0;
}
