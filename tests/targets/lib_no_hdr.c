/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Linked with --no-eh-frame-hdr: unwind tables that only the section headers lead to. Without frame pointers.
 */
long no_hdr_outer(long (*leaf)(void *argument), void *argument);

static __attribute__((noinline)) long no_hdr_inner(long (*leaf)(void *argument), void *argument)
{
    char room[200]; /* a frame that nobody guesses */

    __asm__ volatile("" : : "r"(room) : "memory");
    return leaf(argument) + 1;
}

long no_hdr_outer(long (*leaf)(void *argument), void *argument)
{
    return no_hdr_inner(leaf, argument) * 2;
}
