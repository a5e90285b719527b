/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* S72: a program without any libc. Dynamic, it gets the preload all the same; its exit status is 42. */
void _start(void);
void _start(void)
{
    __asm__ volatile("mov $60, %eax\n\tmov $42, %edi\n\tsyscall");
    __builtin_unreachable();
}
