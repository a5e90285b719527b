/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See self.h.
 * Zone: tests.
 */
#include "tests/unit/unwind/self.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <unistd.h>

static bool read_memory(const struct self *self, pid_t pid, uint64_t address, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)(uintptr_t)address, size};

    if (self->direct && pid == 0) {
        memcpy(to, (const void *)(uintptr_t)address, size);
        return true;
    }
    return process_vm_readv(pid ? pid : getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static bool read_stack(void *context, uint64_t address, void *to, size_t size)
{
    struct self *self = context;

    self->n_stack_reads++;
    return read_memory(self, self->stack_of, address, to, size);
}

static bool read_table(void *context, uint64_t address, void *to, size_t size)
{
    struct self *self = context;

    self->n_table_reads++;
    return read_memory(self, 0, address, to, size);
}

static const struct uw_module *find_module(void *context, uint64_t address)
{
    struct self *self = context;

    for (size_t i = 0; i < self->n_modules; i++) {
        const struct uw_module *module = &self->modules[i].module;

        if (address >= module->start && address < module->end)
            return module;
    }
    return NULL;
}

struct image_at {
    struct self *self;
    uint64_t base;
};

static bool read_image(void *context, uint64_t offset, void *to, size_t size)
{
    const struct image_at *at = context;

    return read_memory(at->self, 0, at->base + offset, to, size);
}

static void add_module(struct self *self, const char *name, uint64_t base)
{
    struct image_at at = {self, base};
    struct elf_reader reader = {&at, read_image};
    struct self_module *m = &self->modules[self->n_modules];

    if (self->n_modules == SELF_MAX_MODULES || elf_read_image(&reader, base, &m->image) != ELF_OK) {
        fprintf(stderr, "cannot read the image of %s\n", name);
        abort();
    }
    m->module = (struct uw_module){.start = m->image.start,
                                   .end = m->image.end,
                                   .bias = m->image.bias,
                                   .eh_frame_hdr = m->image.eh_frame_hdr,
                                   .eh_frame_hdr_size = m->image.eh_frame_hdr_size};
    snprintf(m->name, sizeof(m->name), "%s", name);
    self->n_modules++;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *context)
{
    uint64_t low = UINT64_MAX;

    (void)size;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_vaddr < low)
            low = info->dlpi_phdr[i].p_vaddr;
    }
    if (info->dlpi_addr + low == getauxval(AT_SYSINFO_EHDR))
        add_module(context, "[vdso]", info->dlpi_addr + low);
    else
        add_module(context, info->dlpi_name, info->dlpi_addr + low);
    return 0;
}

void self_init(struct self *self)
{
    memset(self, 0, sizeof(*self));
    self->space = (struct uw_space){.arch = &uw_arch_x86_64,
                                    .context = self,
                                    .find_module = find_module,
                                    .read_stack = read_stack,
                                    .read_table = read_table};
    dl_iterate_phdr(add_object, self);
}

enum uw_status self_walk(struct self *self, struct uw_cursor *cursor, uint64_t *pcs, size_t max,
                         size_t *ret_n)
{
    enum uw_status status = UW_OK;
    size_t n = 0;

    while (n < max) {
        pcs[n++] = cursor->regs.pc;
        status = uw_step(&self->space, cursor);
        if (status != UW_OK)
            break;
    }
    *ret_n = n;
    return status;
}
