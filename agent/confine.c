/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See confine.h.
 * Zone: probe thread.
 */
#include "agent/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/errno.h>

#include "agent/credentials.h"
#include "agent/endpoint.h"
#include "agent/modules.h"
#include "agent/process.h"
#include "agent/reserve.h"
#include "agent/sys.h"
#include "agent/text.h"

#include "agent/nolibc.h"

/*
 * A user that nobody else is: the kernel counts processes by user (RLIMIT_NPROC), and 65534 runs services.
 * The range is free by systemd's list of user ids; where it is not mapped, in a user namespace, 65534 serves.
 */
#define NOBODY_ELSE 2147483646u
#define NOBODY 65534u

#define BIT(capability) (UINT64_C(1) << (capability))
#define BECOMING (BIT(CAP_SETUID) | BIT(CAP_SETGID))

/* include/uapi/linux/landlock.h; newer than the headers of old distributions */
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_REMOVE_FILE (UINT64_C(1) << 5)
#define FS_MAKE_SOCK (UINT64_C(1) << 9)
#define LOG_SAME_EXEC_OFF 1u /* what is refused to us is not worth a line in the system's log */

/* What each version of Landlock can take away; the newest first. */
static const struct {
    int version;
    struct sys_landlock_ruleset rights;
    size_t size; /* of the structure, then */
    unsigned flags;
} landlock_versions[] = {
    {7, {.fs = (1u << 16) - 1, .net = 3, .scoped = 3}, 24, LOG_SAME_EXEC_OFF},
    {6,
     {.fs = (1u << 16) - 1, .net = 3, .scoped = 1},
     24,
     0}, /* signals among our own threads need version 7 */
    {5, {.fs = (1u << 16) - 1, .net = 3}, 16, 0},
    {4, {.fs = (1u << 15) - 1, .net = 3}, 16, 0},
    {3, {.fs = (1u << 15) - 1}, 8, 0},
    {2, {.fs = (1u << 14) - 1}, 8, 0},
    {1, {.fs = (1u << 13) - 1}, 8, 0},
};

/*
 * Where systems keep programs and libraries, and no secrets. Not /opt, /home and so on: what the program has
 * mapped from there is allowed file by file, and names of what it loads later are probectl's to find.
 */
static const char *const readable[] = {"/proc", "/usr",  "/lib",    "/lib64",     "/lib32",
                                       "/bin",  "/sbin", "/libx32", "/nix/store", "/gnu/store"};

/* For the text of maps and what modules.c makes of it. */
#define MAPS_MOST ((size_t)4 * 1024 * 1024)
#define MAPS_LEAST ((size_t)256 * 1024)

static struct {
    bool restricted;  /* by Landlock */
    bool final;       /* see confine_is_final() */
    uint64_t reading; /* the capability that is kept; 0: none */
} state;

/* The file or directory, if it is there: a ruleset is whole without it. */
static bool allow(int ruleset, const char *path, uint64_t rights)
{
    long fd = sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0), r;

    if (fd < 0)
        return false;
    r = sys_landlock_add_path(ruleset, (int)fd, rights);
    sys_close((int)fd);
    return r == 0;
}

/* What endpoint_open() will need: it can make no directory any more. */
static void allow_socket(int ruleset, const struct config *config)
{
    char path[ENDPOINT_PATH];
    bool allowed = false;

    for (unsigned i = 0; endpoint_directory(config, i, path); i++) {
        if (!allowed)
            sys_mkdirat(AT_FDCWD, path, 0700);
        allowed |= allow(ruleset, path, FS_READ_DIR | FS_MAKE_SOCK | FS_REMOVE_FILE);
    }
}

/* The program's own files, which need not lie in the system's directories. */
static void allow_mapped_files(int ruleset)
{
    struct memory memory = {
        .pid = sys_gettid(),
        .directory = (int)sys_openat(AT_FDCWD, "/proc/thread-self", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0),
        .mem_fd = -1,
        .file_first = sys_get_seccomp() != 0,
    };
    struct arena arena = {.base = NULL};
    struct modules modules = {.n_modules = 0};

    arena.base = reserve_memory(MAPS_MOST, MAPS_LEAST, &arena.size);
    if (arena.base && memory.directory >= 0)
        modules_load(&modules, &memory, &arena);
    for (uint32_t i = 0; i < modules.n_modules; i++)
        if (modules.report[i].path[0] == '/')
            allow(ruleset, modules.report[i].path, FS_READ_FILE);
    if (arena.base)
        sys_munmap(arena.base, arena.size);
    if (memory.mem_fd >= 0)
        sys_close(memory.mem_fd);
    if (memory.directory >= 0)
        sys_close(memory.directory);
}

static bool restrict_files(const struct config *config)
{
    long version = sys_landlock_version(), ruleset;
    unsigned i = 0;
    long r;

    if (version < 1)
        return false;
    while (landlock_versions[i].version > version)
        i++;
    ruleset = sys_landlock_create_ruleset(&landlock_versions[i].rights, landlock_versions[i].size);
    if (ruleset < 0)
        return false;
    for (unsigned j = 0; j < sizeof readable / sizeof readable[0]; j++)
        allow((int)ruleset, readable[j], FS_READ_FILE | FS_READ_DIR);
    allow_mapped_files((int)ruleset);
    allow_socket((int)ruleset, config);
    r = sys_landlock_restrict_self((int)ruleset, landlock_versions[i].flags);
    sys_close((int)ruleset);
    return r == 0;
}

void confine_begin(const struct config *config)
{
    uint64_t permitted;

    state.restricted = false;
    state.final = false;
    state.reading = 0;
    if (config->under_valgrind || process_filter_may_kill())
        return;
    permitted = credentials_capabilities();
    if (permitted == 0 && sys_geteuid() != 0)
        return;
    sys_set_no_new_privileges();
    /* Whoever cannot become somebody else has only capabilities to give up. */
    if (sys_geteuid() == 0 || permitted & BIT(CAP_SETUID))
        state.restricted = restrict_files(config);
    /* CAP_DAC_OVERRIDE can do more, but containers often have it alone. */
    if (state.restricted && permitted & BIT(CAP_DAC_READ_SEARCH))
        state.reading = BIT(CAP_DAC_READ_SEARCH);
    else if (state.restricted && permitted & BIT(CAP_DAC_OVERRIDE))
        state.reading = BIT(CAP_DAC_OVERRIDE);
    credentials_keep(state.reading | BECOMING, state.reading);
}

void confine_end(void)
{
    int r;

    if (!state.reading)
        return; /* credentials_follow() follows */
    credentials_keep(state.reading | BECOMING, state.reading | BECOMING);
    r = credentials_become(NOBODY_ELSE);
    if (r == -EINVAL)
        r = credentials_become(NOBODY);
    state.final = r == 0 && credentials_keep(state.reading, state.reading) == 0;
}

bool confine_is_final(void)
{
    return state.final;
}
