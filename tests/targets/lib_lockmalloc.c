/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A preloadable allocator with one lock that a thread can be made to hold for as long as a test wants:
 * whoever allocates meanwhile hangs. It never gives memory back.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FRAME __attribute__((noinline, used))

enum { POOL = 256 << 20, ALIGN = 16 };

static char *pool;
static size_t pool_used;
static int lock;        /* 0 free, 1 taken */
static int holder;      /* tid that shall stay inside; 0: nobody */
static int holding = 1; /* futex the holder sleeps on; 0: go on */
static volatile unsigned sink;

void lockmalloc_hold(int tid);
void lockmalloc_release(void);
void *memalign(size_t alignment, size_t size);

static void futex_wait(int *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(int *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

/* The next allocation of thread tid stays inside the allocator, with the lock held. */
void lockmalloc_hold(int tid)
{
    __atomic_store_n(&holder, tid, __ATOMIC_SEQ_CST);
}

void lockmalloc_release(void)
{
    __atomic_store_n(&holding, 0, __ATOMIC_SEQ_CST);
    futex_wake(&holding);
}

FRAME static void allocator_takes_lock(void)
{
    while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
        futex_wait(&lock, 1);
    sink++;
}

FRAME static void allocator_holds_lock(void)
{
    while (__atomic_load_n(&holding, __ATOMIC_SEQ_CST))
        futex_wait(&holding, 1);
    sink++;
}

FRAME static void *allocate(size_t alignment, size_t size)
{
    allocator_takes_lock();
    if (holder && holder == (int)syscall(SYS_gettid)) {
        allocator_holds_lock();
        holder = 0;
    }
    if (!pool) {
        void *map =
            mmap(NULL, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map != MAP_FAILED)
            pool = map;
    }
    size_t start = (pool_used + sizeof(size_t) + alignment - 1) & ~(alignment - 1);
    void *result = NULL;
    if (pool && size < POOL && start + size <= POOL) {
        pool_used = start + size;
        result = pool + start;
        memcpy((char *)result - sizeof(size_t), &size, sizeof(size));
    } else {
        errno = ENOMEM;
    }
    __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
    futex_wake(&lock);
    return result;
}

void *malloc(size_t size)
{
    void *result = allocate(ALIGN, size);
    sink++;
    return result;
}

void free(void *old)
{
    (void)old;
}

void *calloc(size_t n, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return allocate(ALIGN, all); /* never reused, so still zero */
}

void *realloc(void *old, size_t size)
{
    void *result = allocate(ALIGN, size);
    if (old && result) {
        size_t before;
        memcpy(&before, (char *)old - sizeof(size_t), sizeof(before));
        memcpy(result, old, before < size ? before : size);
    }
    return result;
}

void *memalign(size_t alignment, size_t size)
{
    return allocate(alignment < ALIGN ? ALIGN : alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    *to = memalign(alignment, size);
    return *to ? 0 : ENOMEM;
}
