/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Writing a report file; see file.h.
 * Zone: client.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/file.h"

static int told(const char *path, int r)
{
    fprintf(stderr, "probectl: cannot write %s: %s\n", path, strerror(-r));
    return r;
}

int report_file_open(struct report_file *file, const char *path)
{
    int fd, r;

    *file = (struct report_file){.to = stdout};
    if (path == NULL)
        return 0;
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
    const char *name = file->path ? file->path : "standard output";
    int r = 0;

    if (fflush(file->to) != 0 || ferror(file->to))
        r = told(name, errno ? -errno : -EIO);
    if (file->path == NULL)
        return r;
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
