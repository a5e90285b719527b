/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See say.h.
 * Zone: client.
 */
#include "cli/say.h"

/* Bytes from 0x80 on may be half a character, or a control character of an 8-bit terminal. */
void say_stranger(FILE *to, const char *text)
{
    for (; *text != '\0'; text++)
        fputc(*text >= 0x20 && *text < 0x7f ? *text : '?', to);
}
