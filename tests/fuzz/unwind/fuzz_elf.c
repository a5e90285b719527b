/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * elf_read_image(): the input is an image, mapped at a fixed base.
 * Zone: tests.
 */
#include "tests/fuzz/unwind/fuzz.h"

#define BASE UINT64_C(0x7f1234560000)

static bool read_piece(void *context, uint64_t offset, void *to, size_t size)
{
    return piece_read(context, offset, to, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct piece piece = input_piece(&in, 0, size);
    struct elf_reader reader = {&piece, read_piece};
    struct elf_image image;

    if (elf_read_image(&reader, BASE, &image) == ELF_OK) {
        CHECK(image.start <= image.end);
        CHECK(image.start % 4096 == 0 && image.end % 4096 == 0);
        CHECK(image.build_id_size <= ELF_BUILD_ID_MAX);
        CHECK(image.eh_frame_hdr_size == 0 ||
              (image.eh_frame_hdr >= image.start && image.eh_frame_hdr <= image.end &&
               image.eh_frame_hdr_size <= image.end - image.eh_frame_hdr));
    }
    free(piece.bytes);
    return 0;
}
