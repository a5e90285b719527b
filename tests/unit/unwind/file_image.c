/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See file_image.h. Lays the segments out by its own reading of the headers, so that elf_read_image() is
 * tested too. Zone: tests.
 */
#include "tests/unit/unwind/file_image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool read_file(void *context, uint64_t offset, void *to, size_t size)
{
    const struct file_image *f = context;

    if (offset > f->size || size > f->size - offset)
        return false;
    memcpy(to, f->bytes + offset, size);
    return true;
}

static bool read_memory(void *context, uint64_t address, void *to, size_t size)
{
    const struct file_image *f = context;

    if (address > f->memory_size || size > f->memory_size - address)
        return false;
    memcpy(to, f->memory + address, size);
    return true;
}

static bool read_nothing(void *context, uint64_t address, void *to, size_t size)
{
    (void)context, (void)address, (void)to, (void)size;
    return false;
}

static const struct uw_module *find_module(void *context, uint64_t address)
{
    const struct file_image *f = context;

    return address >= f->module.start && address < f->module.end ? &f->module : NULL;
}

static bool map_file(struct file_image *f, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &st) < 0) {
        perror(path);
        return false;
    }
    f->size = (size_t)st.st_size;
    f->bytes = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    return f->bytes != MAP_FAILED;
}

/* Position-dependent programs start at 4 MiB: the hole in front is never touched. */
static bool lay_out(struct file_image *f)
{
    const Elf64_Ehdr *ehdr = (const void *)f->bytes;
    const Elf64_Phdr *phdr = (const void *)(f->bytes + ehdr->e_phoff);

    for (size_t i = 0; i < ehdr->e_phnum; i++) {
        if (phdr[i].p_type == PT_LOAD && phdr[i].p_vaddr + phdr[i].p_memsz > f->memory_size)
            f->memory_size = phdr[i].p_vaddr + phdr[i].p_memsz;
    }
    f->memory_size = (f->memory_size + 4095) & ~4095UL;
    f->memory = mmap(NULL, f->memory_size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->memory == MAP_FAILED)
        return false;
    for (size_t i = 0; i < ehdr->e_phnum; i++) {
        if (phdr[i].p_type == PT_LOAD)
            memcpy(f->memory + phdr[i].p_vaddr, f->bytes + phdr[i].p_offset, phdr[i].p_filesz);
    }
    return true;
}

struct base_reader {
    struct file_image *f;
    uint64_t base;
};

static bool read_from_base(void *context, uint64_t offset, void *to, size_t size)
{
    const struct base_reader *r = context;

    return read_memory(r->f, r->base + offset, to, size);
}

static uint64_t first_load(const struct file_image *f)
{
    const Elf64_Ehdr *ehdr = (const void *)f->bytes;
    const Elf64_Phdr *phdr = (const void *)(f->bytes + ehdr->e_phoff);

    while (phdr->p_type != PT_LOAD)
        phdr++;
    return phdr->p_vaddr;
}

bool file_image_open(struct file_image *f, const char *path)
{
    struct base_reader at = {f, 0};
    struct elf_reader reader = {&at, read_from_base};

    memset(f, 0, sizeof(*f));
    if (!map_file(f, path) || !lay_out(f))
        return false;
    f->file_reader = (struct elf_reader){f, read_file};
    at.base = first_load(f);
    if (elf_read_image(&reader, at.base, &f->image) != ELF_OK ||
        elf_read_file(&f->file_reader, &f->file) != ELF_OK) {
        fprintf(stderr, "%s: headers not understood\n", path);
        return false;
    }
    f->module = (struct uw_module){.start = f->image.start,
                                   .end = f->image.end,
                                   .bias = f->image.bias,
                                   .eh_frame_hdr = f->image.eh_frame_hdr,
                                   .eh_frame_hdr_size = f->image.eh_frame_hdr_size,
                                   .eh_frame = f->image.bias + f->file.eh_frame,
                                   .eh_frame_size = f->file.eh_frame_size};
    f->space = (struct uw_space){.arch = &uw_arch_x86_64,
                                 .context = f,
                                 .find_module = find_module,
                                 .read_stack = read_nothing,
                                 .read_table = read_memory};
    return true;
}

void file_image_close(struct file_image *f)
{
    munmap((void *)(uintptr_t)f->bytes, f->size);
    munmap(f->memory, f->memory_size);
}
