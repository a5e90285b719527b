/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * See config.h.
 * Zone: load time.
 */
#include "agent/config.h"

#include "agent/text.h"
#include "agent/nolibc.h"

/* A thread whose stack is smaller than a page is not worth a copy; the arena bounds the other end. */
#define MIN_MAX_STACK 4096
#define MAX_MAX_STACK (8 * 1024 * 1024)

/* Real-time signals that glibc and musl leave to the program. */
#define FIRST_SIGNAL 34
#define LAST_SIGNAL 64

static void complain(struct config *config, const char *sentence)
{
    if (config->n_complaints < CONFIG_MAX_COMPLAINTS)
        config->complaints[config->n_complaints++] = sentence;
}

bool config_parse_mode(const char *text, enum capture_mode *ret_mode)
{
    static const struct {
        const char *word;
        enum capture_mode mode;
    } modes[] = {
        {"auto", CAPTURE_MODE_AUTO}, {"passive", CAPTURE_MODE_PASSIVE}, {"signal", CAPTURE_MODE_SIGNAL}};

    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (text_equal(text, modes[i].word)) {
            *ret_mode = modes[i].mode;
            return true;
        }
    return false;
}

static void set_directory(struct config *config, const char *value)
{
    if (value[0] == '/' && text_length(value) < sizeof config->directory) {
        text_copy(config->directory, sizeof config->directory, value);
        config->directory_explicit = true;
    } else {
        complain(config,
                 "PROBE_DIR is not an absolute path of at most 511 bytes; the default directory is used");
    }
}

static void set_runtime_directory(struct config *config, const char *value)
{
    static const char below[] = "/probe";
    size_t n = text_length(value);

    /* Not ours to complain about: without it there is /tmp. */
    if (config->directory_explicit || value[0] != '/' || n + sizeof below > sizeof config->directory)
        return;
    text_copy(config->directory, sizeof config->directory, value);
    text_copy(config->directory + n, sizeof below, below);
}

static void set_match(struct config *config, const char *value)
{
    if (!text_copy(config->match, sizeof config->match, value))
        complain(config, "PROBE_MATCH is longer than 511 bytes and ignored");
}

static void set_label(struct config *config, const char *value)
{
    if (!text_copy(config->label, sizeof config->label, value))
        complain(config, "PROBE_LABEL is longer than 511 bytes and ignored");
}

static void set_mode(struct config *config, const char *value)
{
    if (!config_parse_mode(value, &config->mode))
        complain(config, "PROBE_CAPTURE is none of auto, passive, signal; auto is used");
}

static void set_signal(struct config *config, const char *value)
{
    uint64_t signal;

    if (text_decimal(value, &signal) && signal >= FIRST_SIGNAL && signal <= LAST_SIGNAL)
        config->signal = (int)signal;
    else
        complain(config,
                 "PROBE_SIGNAL is not a real-time signal number (34 to 64); the highest free one is used");
}

static void set_max_stack(struct config *config, const char *value)
{
    uint64_t size;

    if (text_decimal(value, &size) && size >= MIN_MAX_STACK && size <= MAX_MAX_STACK)
        config->max_stack = size;
    else
        complain(config, "PROBE_MAX_STACK is not a number of bytes from 4096 to 8388608; 262144 is used");
}

static void set_start(struct config *config, const char *value)
{
    if (text_equal(value, "lazy"))
        config->lazy = true;
    else
        complain(config, "PROBE_START knows only the value lazy; the agent starts at once");
}

static void set_disable(struct config *config, const char *value)
{
    config->disabled = value[0] && !text_equal(value, "0");
}

static void set_preload(struct config *config, const char *value)
{
    for (; *value; value++)
        if (text_after(value, "/vgpreload_"))
            config->under_valgrind = true;
}

static void set_later(struct config *config, const char *value)
{
    if (value[0])
        complain(
            config,
            "PROBE_TRIGGER, PROBE_FIFO, PROBE_OUTPUT and PROBE_DUMP_AFTER are not supported by this version");
}

static const struct {
    const char *name;
    void (*set)(struct config *config, const char *value);
} variables[] = {
    {"LD_PRELOAD=", set_preload},  {"XDG_RUNTIME_DIR=", set_runtime_directory},
    {"PROBE_DIR=", set_directory}, {"PROBE_MATCH=", set_match},
    {"PROBE_LABEL=", set_label},   {"PROBE_CAPTURE=", set_mode},
    {"PROBE_SIGNAL=", set_signal}, {"PROBE_MAX_STACK=", set_max_stack},
    {"PROBE_START=", set_start},   {"PROBE_DISABLE=", set_disable},
    {"PROBE_TRIGGER=", set_later}, {"PROBE_FIFO=", set_later},
    {"PROBE_OUTPUT=", set_later},  {"PROBE_DUMP_AFTER=", set_later},
};

void config_read(struct config *ret, char *const *envp)
{
    __builtin_memset(ret, 0, sizeof *ret);
    ret->max_stack = SNAPSHOT_MAX_STACK;
    for (; *envp; envp++)
        for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
            const char *value = text_after(*envp, variables[i].name);

            if (value)
                variables[i].set(ret, value);
        }
}
