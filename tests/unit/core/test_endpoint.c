/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* agent/endpoint.c: what lies in the socket directory before, while and after the socket is made. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/endpoint.h"
#include "agent/process.h"
#include "agent/sys.h"

TestSuite(endpoint, .timeout = 20);

static struct config config;
static char own_name[80];
static bool seen_too_early, hidden_while_not_listening;
static int renames_refused;

static const char *path_of(const char *name)
{
    static char path[CONFIG_TEXT + 300];

    snprintf(path, sizeof path, "%s/%s", config.directory, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat status;

    return lstat(path_of(name), &status) == 0;
}

static const char *hidden(const char *name)
{
    static char text[100];

    snprintf(text, sizeof text, ".%s", name);
    return text;
}

static const char *name_of(int pid)
{
    static char name[80];
    uint64_t start = 0;

    process_start_ticks(pid, &start);
    snprintf(name, sizeof name, "%d-%llu.sock", pid, (unsigned long long)start);
    return name;
}

/* What a program leaves behind that was killed. */
static void leave_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%.60s/%.40s", config.directory, name);
    cr_assert(eq(int, bind(fd, (struct sockaddr *)&address, sizeof address), 0));
    close(fd);
}

static void set_up(void)
{
    strcpy(config.directory, "/tmp/probe-endpoint-XXXXXX");
    cr_assert(mkdtemp(config.directory) != NULL);
    config.directory_explicit = true;
    strcpy(own_name, name_of(getpid()));
}

static void tear_down(void)
{
    DIR *directory = opendir(config.directory);
    struct dirent *entry;

    while ((entry = readdir(directory)))
        unlink(path_of(entry->d_name));
    closedir(directory);
    rmdir(config.directory);
}

static bool look_at_listen(long number, const long args[6], long *ret_result)
{
    if (number == SYS_listen) {
        seen_too_early |= exists(own_name);
        hidden_while_not_listening |= exists(hidden(own_name));
    }
    if (number == SYS_renameat && renames_refused > 0) {
        renames_refused--;
        unlink(path_of(hidden(own_name))); /* somebody swept it away */
        *ret_result = -ENOENT;
        return true;
    }
    return false;
}

static int open_looking(void)
{
    int fd;

    sys_hook = look_at_listen;
    fd = endpoint_open(&config);
    sys_hook = NULL;
    return fd;
}

/* Until then it refuses connections, and looks like one whose owner is gone. */
Test(endpoint, has_no_name_before_it_listens, .init = set_up, .fini = tear_down)
{
    cr_assert(ge(int, open_looking(), 0));
    cr_expect(hidden_while_not_listening);
    cr_expect(not(seen_too_early));
    cr_expect(exists(own_name));
    cr_expect(not(exists(hidden(own_name))));
}

Test(endpoint, is_private, .init = set_up, .fini = tear_down)
{
    struct stat status;

    umask(0);
    cr_assert(ge(int, open_looking(), 0));
    cr_assert(eq(int, lstat(path_of(own_name), &status), 0));
    cr_expect(eq(u32, status.st_mode & 07777, 0600));
}

Test(endpoint, replaces_that_of_the_program_before_exec, .init = set_up, .fini = tear_down)
{
    leave_socket(own_name);
    leave_socket(hidden(own_name));
    cr_assert(ge(int, open_looking(), 0));
    cr_expect(exists(own_name));
    cr_expect(not(exists(hidden(own_name))));
}

Test(endpoint, is_made_again_when_somebody_swept_it_away, .init = set_up, .fini = tear_down)
{
    renames_refused = 1;
    cr_assert(ge(int, open_looking(), 0));
    cr_expect(exists(own_name));
}

Test(endpoint, gives_up_when_it_is_swept_away_for_ever, .init = set_up, .fini = tear_down)
{
    renames_refused = 100;
    cr_expect(eq(int, open_looking(), -ENOENT));
    cr_expect(not(exists(own_name)));
    cr_expect(gt(int, renames_refused, 90));
}

Test(endpoint, sweeps_the_dead_only, .init = set_up, .fini = tear_down)
{
    static const char *const kept[] = {"x-1.sock", "4194304-1.sock.txt", "note", ".4194304.sock",
                                       "..4194304-1.sock"};

    leave_socket("4194304-1.sock"); /* PID_MAX_LIMIT: nobody has it */
    leave_socket(".4194304-1.sock");
    leave_socket(name_of(getppid()));
    leave_socket(hidden(name_of(getppid())));
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        leave_socket(kept[i]);
    cr_assert(ge(int, open_looking(), 0));
    cr_expect(not(exists("4194304-1.sock")));
    cr_expect(not(exists(".4194304-1.sock")));
    cr_expect(exists(name_of(getppid())), "its owner lives");
    cr_expect(exists(hidden(name_of(getppid()))), "its owner lives");
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        cr_expect(exists(kept[i]), "%s is none of ours", kept[i]);
}
