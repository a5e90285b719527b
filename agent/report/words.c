/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Every enumeration of the report model in words. The words are part of the protocol and of the JSON Schema:
 * they may be added to, never changed.
 * Zone: pure.
 */
#include "agent/report/words.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))
#define LOOK_UP(table, i, otherwise) \
    ((size_t)(i) < N_ELEMENTS(table) && (table)[i] ? (table)[i] : (otherwise))

static const char *const captures[CAPTURE_KIND_N] = {
    [CAPTURE_NONE] = "none",
    [CAPTURE_PASSIVE] = "passive",
    [CAPTURE_SIGNAL] = "signal",
};

static const struct {
    const char *word, *sentence;
} reasons[REASON_N] = {
    [REASON_NONE] = {"", ""},
    [REASON_VANISHED] = {"vanished", "ended while the dump was taken"},
    [REASON_UNSTABLE] = {"unstable", "kept moving while it was read"},
    [REASON_SIGNAL_BLOCKED] = {"signal_blocked", "running with the capture signal blocked"},
    [REASON_FAULT_HANDLER] = {"fault_handler", "running with SIGSEGV blocked, as inside a fault handler"},
    [REASON_NO_ANSWER] = {"no_answer", "running, and did not answer the capture signal in time"},
    [REASON_SIGNALLED_RECENTLY] = {"signalled_recently", "running, and signalled less than a second ago"},
    [REASON_SMALL_STACK] = {"small_stack", "running on a stack too small for a signal frame"},
    [REASON_KERNEL_WORKER] = {"kernel_worker", "a kernel worker: it has no user stack"},
    [REASON_SIGNAL_TAKEN] = {"signal_taken", "running, and the program handles the capture signal itself"},
    [REASON_NO_SIGNAL] = {"no_signal", "running, and no signal number was free"},
    [REASON_NOT_RUN] = {"not_run", "runnable, but it got no processor time while it was watched"},
    [REASON_SANDBOXED] = {"sandboxed",
                          "running in a sandbox of its own, which may kill it for taking a signal"},
    [REASON_SIGNAL_REFUSED] = {"signal_refused", "running, and the kernel refused to queue the signal"},
    [REASON_PASSIVE_ONLY] = {"passive_only", "running, and only passive capture is allowed"},
    [REASON_SYSCALL_UNREADABLE] = {"syscall_unreadable", "its registers cannot be read from /proc"},
    [REASON_STACK_UNREADABLE] = {"stack_unreadable", "its stack memory cannot be read"},
    [REASON_ZOMBIE] = {"zombie", "the thread has ended, the process goes on"},
    [REASON_DEADLINE] = {"deadline", "the time for the dump was used up"},
    [REASON_MEMORY] = {"memory", "the agent's memory was used up"},
    [REASON_UNSUPPORTED] = {"unsupported", "capture is not supported on this platform"},
    [REASON_NO_AGENT] = {"no_agent", "seen from outside only"},
    [REASON_OUTSIDE] = {"outside", "running, and from outside only sleeping threads can be read"},
    [REASON_FOREIGN_STACK] = {"foreign_stack", "registers only: it is not on the thread's own stack"},
};

static const char *const trusts[UW_TRUST_N] = {
    [UW_TRUST_CONTEXT] = "context",
    [UW_TRUST_CFI] = "cfi",
    [UW_TRUST_FRAME_POINTER] = "frame_pointer",
    [UW_TRUST_INFERRED] = "inferred",
};

static const struct {
    const char *word, *sentence;
} ends[UW_STATUS_N] = {
    [UW_OK] = {"frame_limit", "more frames than are kept"},
    [UW_END] = {"outermost", ""},
    [UW_NO_MODULE] = {"no_module", "the code belongs to no file, and no frame pointer leads on"},
    [UW_NO_CFI] = {"no_cfi", "the code has no unwind information, and no frame pointer leads on"},
    [UW_BAD_CFI] = {"bad_cfi", "the unwind information is malformed or unknown"},
    [UW_REGISTER_UNKNOWN] = {"register_unknown", "the caller depends on a register that is not known"},
    [UW_STACK_UNREADABLE] = {"stack_unreadable", "the caller's stack bytes were not captured"},
    [UW_TABLE_UNREADABLE] = {"table_unreadable", "the unwind information cannot be read"},
    [UW_AMBIGUOUS] = {"ambiguous", "no caller could be proven without a register that is not known"},
    [UW_NOT_ADVANCING] = {"not_advancing", "the caller would not lie further up the stack"},
};

static const struct {
    const char *word, *sentence;
} module_symbol_words[SYMBOLS_N] = {
    [SYMBOLS_NOT_LOOKED] = {"not_looked", ""},
    [SYMBOLS_TABLE] = {"table", ""},
    [SYMBOLS_DYNAMIC] = {"dynamic", ""},
    [SYMBOLS_NONE] = {"none", "the file has no symbol table"},
    [SYMBOLS_DELETED] = {"deleted", "the file was deleted or replaced"},
    [SYMBOLS_MISMATCHED] = {"mismatched", "the file is another build than the one in memory"},
    [SYMBOLS_UNREADABLE] = {"unreadable", "the file cannot be read"},
    [SYMBOLS_MALFORMED] = {"malformed", "the file is malformed"},
};

static const char *const waits[WAIT_KIND_N] = {[WAIT_NONE] = "none", [WAIT_MUTEX] = "mutex"};

static const char *const owners[OWNER_STATUS_N] = {
    [OWNER_NOT_APPLICABLE] = "not_applicable",
    [OWNER_LIVE] = "live",
    [OWNER_SELF] = "self",
    [OWNER_GONE] = "gone",
    [OWNER_NONE] = "none",
    [OWNER_UNPROVEN] = "unproven",
};

const char *word_capture(enum capture_kind kind)
{
    return LOOK_UP(captures, kind, "unknown");
}

const char *word_reason(enum capture_reason reason)
{
    return (size_t)reason < REASON_N && reasons[reason].word ? reasons[reason].word : "unknown";
}

const char *sentence_reason(enum capture_reason reason)
{
    return (size_t)reason < REASON_N && reasons[reason].word ? reasons[reason].sentence
                                                             : "the reason is not known";
}

const char *word_trust(enum uw_trust trust)
{
    return LOOK_UP(trusts, trust, "unknown");
}

const char *word_end(enum uw_status status)
{
    return (size_t)status < UW_STATUS_N && ends[status].word ? ends[status].word : "unknown";
}

const char *sentence_end(enum uw_status status)
{
    return (size_t)status < UW_STATUS_N && ends[status].word ? ends[status].sentence
                                                             : "the reason is not known";
}

const char *word_symbols(enum module_symbols symbols)
{
    return (size_t)symbols < SYMBOLS_N ? module_symbol_words[symbols].word : "unknown";
}

const char *sentence_symbols(enum module_symbols symbols)
{
    return (size_t)symbols < SYMBOLS_N ? module_symbol_words[symbols].sentence : "";
}

const char *word_wait(enum wait_kind kind)
{
    return LOOK_UP(waits, kind, "unknown");
}

const char *word_owner(enum owner_status status)
{
    return LOOK_UP(owners, status, "unknown");
}

const char *word_state(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "uninterruptible";
    case 'T':
        return "stopped";
    case 't':
        return "traced";
    case 'Z':
        return "zombie";
    case 'X':
        return "dead";
    case 'I':
        return "idle";
    case 'P':
        return "parked";
    default:
        return "unknown";
    }
}
