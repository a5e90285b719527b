/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/reserve.c: the program keeps most of what its limit leaves. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/reserve.h"
#include "agent/sys.h"

TestSuite(reserve, .timeout = 5);

#define MIB ((size_t)1 << 20)
#define USED ((size_t)100 * MIB)

static uint64_t limit;

/* A program that uses 100 MiB of address space, under a limit. */
static bool play(long number, const long args[6], long *ret_result)
{
    static const char statm[] = "25600 1 1 1 0 1 0\n";
    static bool at_end;

    switch (number) {
    case SYS_prlimit64:
        ((uint64_t *)args[3])[0] = ((uint64_t *)args[3])[1] = limit;
        *ret_result = limit ? 0 : -EPERM;
        return true;
    case SYS_openat:
        *ret_result = 1000;
        at_end = false;
        return true;
    case SYS_read:
        *ret_result = at_end ? 0 : (long)strlen(statm);
        memcpy((void *)args[1], statm, (size_t)*ret_result);
        at_end = true;
        return true;
    case SYS_close:
        *ret_result = 0;
        return true;
    default:
        return false;
    }
}

static size_t reserve(uint64_t left, size_t most, size_t least)
{
    size_t size = 0;
    uint8_t *memory;

    limit = left == UINT64_MAX ? left : USED + left;
    sys_hook = play;
    memory = reserve_memory(most, least, &size);
    sys_hook = NULL;
    if (!memory)
        return 0;
    memory[0] = memory[size - 1] = 1;
    return size;
}

Test(reserve, without_a_limit_all_is_given)
{
    cr_expect(eq(sz, reserve(UINT64_MAX, 32 * MIB, MIB), 32 * MIB));
}

Test(reserve, an_eighth_of_what_is_left_at_most)
{
    cr_expect(eq(sz, reserve(256 * MIB, 32 * MIB, MIB), 32 * MIB));
    cr_expect(eq(sz, reserve(256 * MIB - 4096, 32 * MIB, MIB), 16 * MIB));
    cr_expect(eq(sz, reserve(9 * MIB, 32 * MIB, MIB), MIB));
}

Test(reserve, nothing_rather_than_too_much)
{
    cr_expect(eq(sz, reserve(7 * MIB, 32 * MIB, MIB), (size_t)0));
    cr_expect(eq(sz, reserve(0, 32 * MIB, MIB), (size_t)0));
    cr_expect(eq(sz, reserve(8 * MIB, 2 * MIB, 2 * MIB), (size_t)0), "not less than least");
}

Test(reserve, a_program_beyond_its_limit_leaves_nothing)
{
    size_t size;

    limit = USED / 2; /* setrlimit() after the memory was mapped */
    sys_hook = play;
    cr_expect(reserve_memory(MIB, MIB, &size) == NULL);
    sys_hook = NULL;
}
