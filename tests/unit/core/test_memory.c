/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/memory.c: readers that return an error instead of faulting, whichever way the kernel allows. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/memory.h"
#include "agent/sys.h"

TestSuite(memory, .timeout = 5);

static int refusal; /* the errno of every process_vm_readv */

static bool refuse_vm_readv(long number, const long args[6], long *ret_result)
{
    *ret_result = -refusal;
    return number == SYS_process_vm_readv;
}

static uint8_t *two_pages_one_readable(void)
{
    uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(pages != MAP_FAILED);
    memset(pages, 0x5a, 8192);
    munmap(pages + 4096, 4096);
    return pages;
}

static struct memory own_memory(struct memory_page *pages)
{
    return (struct memory){.pid = sys_gettid(),
                           .directory = open("/proc/thread-self", O_RDONLY | O_DIRECTORY),
                           .mem_fd = -1,
                           .pages = pages};
}

static void reads_up_to_the_edge(void)
{
    struct memory memory = own_memory(NULL);
    uint8_t *pages = two_pages_one_readable(), to[8192];

    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)pages, to, 4096), 4096ul));
    cr_expect(to[0] == 0x5a && to[4095] == 0x5a);
    cr_expect(memory_read(&memory, (uintptr_t)pages + 4090, to, 16) <= 6, "nothing behind the edge");
    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)pages + 4096, to, 8), 0ul));
    cr_expect(eq(sz, memory_read(&memory, 0, to, 8), 0ul));
    cr_expect(eq(sz, memory_read(&memory, UINT64_MAX - 3, to, 8), 0ul), "an address that wraps");
    cr_expect(eq(sz, memory_read(&memory, UINT64_C(0xffff800000000000), to, 8), 0ul));
    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)pages, to, 0), 0ul));
}

Test(memory, unreadable_pages_are_an_error)
{
    reads_up_to_the_edge();
}

Test(memory, same_answers_through_the_file_when_the_call_is_refused)
{
    static const int refusals[] = {EPERM, ENOSYS};

    for (size_t i = 0; i < 2; i++) {
        refusal = refusals[i];
        sys_hook = refuse_vm_readv;
        reads_up_to_the_edge();
        sys_hook = NULL;
    }
}

static int vm_reads;

static bool count_vm_reads(long number, const long args[6], long *ret_result)
{
    vm_reads += number == SYS_process_vm_readv;
    return false;
}

/* No other call is needed that a sandbox might kill for. */
Test(memory, a_sandbox_sees_reads_of_a_file_only)
{
    struct memory memory = own_memory(NULL);
    uint8_t *pages = two_pages_one_readable(), to[16];

    memory.file_first = true;
    sys_hook = count_vm_reads;
    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)pages, to, 16), 16ul));
    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)pages + 4096, to, 8), 0ul));
    cr_expect(eq(int, vm_reads, 0));
    sys_hook = NULL;
}

static bool refuse_files(long number, const long args[6], long *ret_result)
{
    *ret_result = -EACCES;
    return number == SYS_openat;
}

Test(memory, a_sandbox_that_hides_the_file_is_read_by_the_call)
{
    struct memory memory = own_memory(NULL);
    uint8_t *pages = two_pages_one_readable(), to[16];

    memory.file_first = true;
    sys_hook = refuse_files;
    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)pages, to, 16), 16ul));
    sys_hook = NULL;
}

static bool refuse_everything(long number, const long args[6], long *ret_result)
{
    *ret_result = -EPERM;
    return number == SYS_process_vm_readv || number == SYS_openat;
}

Test(memory, both_ways_refused_reads_nothing)
{
    struct memory memory = own_memory(NULL);
    uint8_t to[8];

    sys_hook = refuse_everything;
    cr_expect(eq(sz, memory_read(&memory, (uintptr_t)&memory, to, 8), 0ul));
}

Test(memory, cache_crosses_pages_and_never_invents_bytes)
{
    static struct memory_page cache[MEMORY_CACHED_PAGES];
    struct memory memory = own_memory(cache);
    uint8_t *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), to[64];

    for (int i = 0; i < 3 * 4096; i++)
        pages[i] = (uint8_t)(i * 7);
    for (int at = 4096 - 40; at < 4096 + 8; at++) {
        cr_assert(memory_read_cached(&memory, (uintptr_t)pages + at, to, sizeof to));
        cr_assert(memcmp(to, pages + at, sizeof to) == 0, "at %d", at);
    }
    mprotect(pages + 2 * 4096, 4096, PROT_NONE);
    cr_expect(not(memory_read_cached(&memory, (uintptr_t)pages + 2 * 4096 - 8, to, 16)));
    cr_expect(memory_read_cached(&memory, (uintptr_t)pages + 2 * 4096 - 8, to, 8));
}
