/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Uses 256 bytes of static TLS, of which a process has a small surplus for libraries loaded late (S83). */
static __thread char block[256] __attribute__((tls_model("initial-exec")));

char *tls_block(void);
char *tls_block(void)
{
    return block;
}
