/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See module_file.h.
 * Zone: probe thread.
 */
#include "agent/module_file.h"

#include <fcntl.h>
#include <linux/errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "agent/sys.h"
#include "agent/text.h"
#include "agent/nolibc.h"

/* A symbol table may claim any size, and a file may come from a slow place: reading stops at the deadline. */
static bool read_at(void *context, uint64_t offset, void *to, size_t size)
{
    struct module_file *file = context;
    uint8_t *out = to;

    while (size > 0) {
        long n;

        file->late = sys_monotonic_nanos() >= file->deadline;
        if (file->late)
            return false;
        n = sys_pread(file->fd, out, size, offset);
        if (n == -EINTR)
            continue;
        file->failed = n < 0;
        if (n <= 0)
            return false;
        out += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

/* "/path/of/file (deleted)" is how maps shows a file that was removed or replaced (fs/d_path.c). */
static bool is_deleted(const char *path)
{
    static const char suffix[] = " (deleted)";
    size_t n = text_length(path);

    return n > sizeof suffix - 1 && text_equal(path + n - (sizeof suffix - 1), suffix);
}

/* Is this the file that is mapped? Its build-id must be the one in memory. */
static enum module_symbols check_identity(const struct report_module *module, const struct elf_file *file,
                                          const struct stat *status)
{
    if (!module->build_id) {
        /*
         * maps and stat disagree about devices on overlay and btrfs; a false "mismatched" is the safe side.
         */
        uint64_t device = (uint64_t)major(status->st_dev) << 32 | minor(status->st_dev);

        return module->inode == status->st_ino && module->device == device ? SYMBOLS_TABLE
                                                                           : SYMBOLS_MISMATCHED;
    }
    for (size_t i = 0; i < file->build_id_size; i++)
        if (module->build_id[i * 2] != text_hex_digit(file->build_id[i] >> 4) ||
            module->build_id[i * 2 + 1] != text_hex_digit(file->build_id[i] & 15))
            return SYMBOLS_MISMATCHED;
    return module->build_id[file->build_id_size * 2] ? SYMBOLS_MISMATCHED : SYMBOLS_TABLE;
}

static enum module_symbols read_headers(struct module_file *file, const struct report_module *module)
{
    struct stat status;

    if (sys_fstat(file->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return SYMBOLS_UNREADABLE;
    if (elf_read_file(&file->reader, &file->elf) == ELF_OK)
        return check_identity(module, &file->elf, &status);
    if (file->late)
        return SYMBOLS_NOT_LOOKED;
    return file->failed ? SYMBOLS_UNREADABLE : SYMBOLS_MALFORMED;
}

enum module_symbols module_file_open(struct module_file *file, int root, const struct report_module *module,
                                     uint64_t deadline)
{
    long fd;

    *file = (struct module_file){.fd = -1, .deadline = deadline, .reader = {file, read_at}};
    if (is_deleted(module->path))
        return SYMBOLS_DELETED;
    /* O_NONBLOCK: if somebody put a FIFO at the path, do not wait for its writer. */
    fd = sys_open_below(root, module->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd == -ENOENT)
        return SYMBOLS_DELETED;
    if (fd < 0)
        return SYMBOLS_UNREADABLE;
    file->fd = (int)fd;
    return read_headers(file, module);
}

void module_file_close(struct module_file *file)
{
    if (file->fd >= 0)
        sys_close(file->fd);
    file->fd = -1;
}
