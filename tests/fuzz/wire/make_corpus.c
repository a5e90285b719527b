/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writes the seed streams into the current directory. Zone: tests.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/cli/stream.h"

static void write_file(const char *name, char piece, const char *bytes, size_t n)
{
    FILE *file = fopen(name, "w");

    if (file == NULL)
        return;
    fputc(piece, file);
    fwrite(bytes, 1, n, file);
    fclose(file);
}

int main(void)
{
    struct model *model = stream_model();
    size_t n;
    char *stream = stream_encode(&model->snapshot, &n), *captured = strstr(stream, "{\"type\":\"captured\"");

    write_file("whole", 0, stream, n);
    write_file("whole_in_pieces", 7, stream, n);
    write_file("cut_before_captured", 0, stream, (size_t)(captured - stream));
    write_file("cut_in_captured", 0, stream, (size_t)(captured - stream) + 20);
    write_file("hello", 0, stream, strcspn(stream, "\n") + 1);
    return 0;
}
