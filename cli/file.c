/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writing a report file; see file.h.
 * Zone: client.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/file.h"

static int told(const char *path, int r)
{
    fprintf(stderr, "probectl: cannot write %s: %s\n", path, strerror(-r));
    return r;
}

/*
 * A FIFO, /dev/null, a terminal: written through, not replaced. Return: 0 if opened; 1: it is a regular file,
 * a link or nothing, and will be replaced; or a negative errno, told.
 */
static int open_special(struct report_file *file, const char *path)
{
    struct stat st;
    int fd;

    if (lstat(path, &st) < 0 || S_ISREG(st.st_mode))
        return 1;
    if (S_ISLNK(st.st_mode) && (stat(path, &st) < 0 || S_ISREG(st.st_mode)))
        return 1;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return told(path, -errno);
    file->to = fdopen(fd, "w");
    return file->to != NULL ? 0 : told(path, -errno);
}

int report_file_open(struct report_file *file, const char *path)
{
    int fd, r;

    *file = (struct report_file){.to = stdout};
    if (path == NULL)
        return 0;
    r = open_special(file, path);
    if (r <= 0)
        return r;
    file->path = strdup(path);
    if (file->path == NULL || asprintf(&file->temporary, "%s.XXXXXX", path) < 0)
        return told(path, -ENOMEM);
    fd = mkstemp(file->temporary); /* 0600, exclusive, beside the final name: a rename then is atomic */
    if (fd < 0) {
        r = told(path, -errno);
        free(file->path);
        free(file->temporary);
        return r;
    }
    file->to = fdopen(fd, "w");
    return file->to != NULL ? 0 : told(path, -errno);
}

int report_file_close(struct report_file *file, bool keep)
{
    const char *name = file->path ? file->path : "the output";
    int r = 0;

    if (fflush(file->to) != 0 || ferror(file->to))
        r = told(name, errno ? -errno : -EIO);
    if (file->path == NULL) {
        if (file->to != stdout && fclose(file->to) != 0 && r == 0)
            r = told(name, -errno);
        return r;
    }
    if (fclose(file->to) != 0 && r == 0)
        r = told(name, -errno);
    if (keep && r == 0 && rename(file->temporary, file->path) < 0)
        r = told(name, -errno);
    if (!keep || r < 0)
        unlink(file->temporary);
    free(file->path);
    free(file->temporary);
    return r;
}
