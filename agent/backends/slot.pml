/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The slot protocol (slot.h) for the model checker spin: every interleaving of the probe thread (signal.c) with the
 * handlers (signal_handler.c) of THREADS threads, over DUMPS dumps, with signals that are refused, come late or pile
 * up, with handlers that stop between any two steps, and with a fork at any moment. tests/contract/test_model.py runs
 * it; each -DMUTATION_n puts one error in, which spin must find.
 *
 * An inline here is the function of the same name there, and stands for nothing else; a line of it is one step of
 * that function, in its order. What the code does to a slot's word with one atomic operation is one atomic step here.
 * Whatever the code decides by what a thread looks like (classify(), own_signal(), the gap between two signals) is
 * free choice here: the protocol must hold for any decision. Memory order is sequential here; in the code the
 * acquire and release of slot.h have to give that.
 *
 * Shown: nobody but the thread that a slot is armed for writes to it, and not after it was withdrawn; the probe
 * thread touches bounds and bytes only when no handler holds the slot; what it takes is whole, of this thread, and
 * of this arming; after a dump no slot is armed, and only those that a handler is still in are out of use; nobody
 * waits for ever.
 */
#ifndef SLOT_COUNT
#define SLOT_COUNT 2
#endif
#ifndef THREADS
#define THREADS 3 /* at most 4: see WRITTEN */
#endif
#ifndef DUMPS
#define DUMPS 2
#endif
#ifndef FORKS
#define FORKS 1
#endif
#define QUEUE 2 /* real-time signals that may be pending for one thread */

/* enum slot_state */
#define SLOT_FREE 0
#define SLOT_ARMED 1
#define SLOT_BUSY 2
#define SLOT_FULL 3

#define NOBODY 255
#define WRITTEN(tid, generation) ((generation) * 4 + (tid)) /* what a handler's copy consists of */

/* struct slot. The two halves of word change together only. */
typedef slot {
    byte generation;
    byte state;
    byte stack_top; /* bounds: the thread whose stack they describe */
    byte bytes[2];  /* two of the words that the handler copies: half a copy can be told from a whole one */

    /* Nobody's memory: what the assertions know. */
    byte armed_for;
    byte holders; /* handlers between claiming and publishing */
    bool withdrawn;
};

slot libprobe_slots[SLOT_COUNT];
chan pending[THREADS] = [QUEUE] of { byte, byte }; /* info->value: index and generation */
byte process; /* counts forks: whoever belongs to an older process is gone */

/* Handler: libprobe_capture_signal() on thread tid. */

inline claim(index, generation)
{
#ifdef MUTATION_1 /* looks, then writes */
    if
    :: libprobe_slots[index].generation == generation && libprobe_slots[index].state == SLOT_ARMED -> skip
    :: else -> goto leave
    fi;
    atomic {
        libprobe_slots[index].state = SLOT_BUSY;
#else
    atomic {
        if
#ifdef MUTATION_2 /* any armed slot will do */
        :: libprobe_slots[index].state == SLOT_ARMED ->
#else
        :: libprobe_slots[index].generation == generation && libprobe_slots[index].state == SLOT_ARMED ->
#endif
            libprobe_slots[index].state = SLOT_BUSY
        :: else -> goto leave
        fi;
#endif
        libprobe_slots[index].holders++;
        assert(libprobe_slots[index].holders == 1);
        assert(libprobe_slots[index].armed_for == tid);
        assert(!libprobe_slots[index].withdrawn)
    }
}

inline copy_stack(index, generation)
{
    assert(libprobe_slots[index].stack_top == tid);
    libprobe_slots[index].bytes[0] = WRITTEN(tid, generation);
    assert(libprobe_slots[index].armed_for == tid && libprobe_slots[index].generation == generation);
    libprobe_slots[index].bytes[1] = WRITTEN(tid, generation);
    assert(libprobe_slots[index].armed_for == tid && libprobe_slots[index].generation == generation)
}

inline publish(index)
{
    atomic {
        libprobe_slots[index].state = SLOT_FULL;
        libprobe_slots[index].holders--
    }
}

proctype thread(byte tid)
{
    byte mine, index, generation;

begin:
    atomic { mine = process; index = 0; generation = 0 };
    {
end:    do
        :: pending[tid]?index, generation ->
            claim(index, generation);
#ifdef MUTATION_3 /* says so first */
            publish(index);
            copy_stack(index, generation);
#else
            copy_stack(index, generation);
            publish(index);
#endif
leave:      atomic { index = 0; generation = 0 }
        od
    } unless {
        process != mine -> goto begin
    }
}

/* Probe thread */

/* In a fork child no thread is left that could answer the parent's signals. */
inline prepare()
{
    i = 0;
    do
    :: i < SLOT_COUNT ->
#ifndef MUTATION_4 /* the child goes on with the parent's slots */
        d_step {
            libprobe_slots[i].generation = libprobe_slots[i].generation + 1;
            libprobe_slots[i].state = SLOT_FREE
        }
#endif
        i++
    :: else -> break
    od
}

inline next_slot()
{
    chosen = NOBODY;
    do
    :: at < SLOT_COUNT && chosen == NOBODY ->
        if
#ifdef MUTATION_5 /* takes a slot that a handler is stuck in */
        :: true -> chosen = at
#else
        :: libprobe_slots[at].state != SLOT_BUSY -> chosen = at
        :: else -> skip
#endif
        fi;
        at++
    :: else -> break
    od
}

inline set_bounds(index, tid)
{
    assert(libprobe_slots[index].holders == 0);
    libprobe_slots[index].stack_top = NOBODY;
    assert(libprobe_slots[index].holders == 0);
    libprobe_slots[index].stack_top = tid
}

inline arm(index, tid)
{
    d_step {
        assert(libprobe_slots[index].state != SLOT_ARMED);
#ifndef MUTATION_6 /* the same generation again */
        libprobe_slots[index].generation = libprobe_slots[index].generation + 1;
#endif
        libprobe_slots[index].state = SLOT_ARMED;
        libprobe_slots[index].armed_for = tid;
        libprobe_slots[index].withdrawn = false
    }
}

/* Sets sent. */
inline send_signal(index, tid)
{
    arm(index, tid);
    if
    :: atomic { nfull(pending[tid]) -> pending[tid]!index, libprobe_slots[index].generation; sent = true }
    :: sent = false /* EAGAIN, EPERM, ESRCH */
    fi;
#ifndef MUTATION_7 /* a refused signal leaves its slot armed */
    if
    :: sent -> skip
    :: else -> libprobe_slots[index].state = SLOT_FREE
    fi
#endif
}

inline signal_one(index, tid)
{
    sent = false;
    if
    :: skip /* classify(): it may not, or need not be signalled */
    :: 
#ifdef MUTATION_8 /* armed before the handler can know the bounds */
        send_signal(index, tid);
        set_bounds(index, tid)
#else
        set_bounds(index, tid);
        if
        :: skip /* fell asleep since, or the handler is no longer ours */
        :: send_signal(index, tid)
        fi
#endif
    fi
}

inline fill_batch()
{
    at = 0;
    next_slot();
    do
    :: done < THREADS && chosen != NOBODY ->
        signal_one(chosen, done);
        if
        :: sent ->
            batch_samples[n] = done;
            batch_slots[n] = chosen;
            n++;
            next_slot()
        :: else -> skip
        fi;
        done++
    :: else -> break
    od
}

#ifdef MUTATION_9 /* claimed is as good as answered */
#define answered(index) (libprobe_slots[index].state >= SLOT_BUSY)
#else
#define answered(index) (libprobe_slots[index].state == SLOT_FULL)
#endif

/* Sets took_back. */
inline withdraw(index)
{
    word_state = libprobe_slots[index].state;
    took_back = false;
#ifdef MUTATION_10 /* takes back what was armed a moment ago */
    if
    :: word_state == SLOT_ARMED ->
        libprobe_slots[index].state = SLOT_FREE; libprobe_slots[index].withdrawn = true; took_back = true
    :: else -> took_back = (word_state != SLOT_FULL)
    fi
#else
    if
    :: word_state == SLOT_ARMED ->
        atomic {
            word_state = libprobe_slots[index].state;
            if
            :: word_state == SLOT_ARMED ->
                libprobe_slots[index].state = SLOT_FREE;
                libprobe_slots[index].withdrawn = true;
                took_back = true
            :: else -> skip
            fi
        }
    :: else -> skip
    fi;
#ifdef MUTATION_11 /* a slot that could not be taken back is taken for answered */
    skip
#else
    took_back = took_back || word_state != SLOT_FULL
#endif
#endif
}

/* Also add_pause(), and the madvise() that gives the bytes back. */
inline take_slot(index, tid)
{
    assert(libprobe_slots[index].holders == 0 && !libprobe_slots[index].withdrawn);
    assert(libprobe_slots[index].bytes[0] == WRITTEN(tid, libprobe_slots[index].generation));
    assert(libprobe_slots[index].holders == 0);
    assert(libprobe_slots[index].bytes[1] == WRITTEN(tid, libprobe_slots[index].generation));
    assert(libprobe_slots[index].holders == 0);
    d_step { libprobe_slots[index].bytes[0] = 0; libprobe_slots[index].bytes[1] = 0 }
}

/* wait_for_answers() only looks: whatever the handlers do while it waits, they do before the next step here. */
inline collect()
{
    i = 0;
    do
    :: i < n ->
#ifdef MUTATION_12 /* who has not answered keeps his slot armed */
        took_back = !answered(batch_slots[i]);
#else
        if
        :: answered(batch_slots[i]) -> took_back = false
        :: else -> withdraw(batch_slots[i])
        fi;
#endif
        if
        :: took_back -> skip /* why_silent() */
        :: else -> take_slot(batch_slots[i], batch_samples[i])
        fi;
        i++
    :: else -> break
    od;
    n = 0
}

inline signal_capture()
{
    done = 0;
    used = true;
    do
    :: done < THREADS && used ->
        i = done;
        fill_batch();
        used = done > i; /* else every slot is stuck */
        collect()
    :: else -> break
    od
}

/* Between two dumps: nothing is armed, and what is out of use will come back. */
inline settled()
{
    d_step {
        i = 0;
        do
        :: i < SLOT_COUNT ->
            assert(libprobe_slots[i].state != SLOT_ARMED);
            assert(libprobe_slots[i].state != SLOT_BUSY || libprobe_slots[i].holders == 1);
            i++
        :: else -> break
        od;
        i = 0
    }
}

proctype probe()
{
    byte mine, dump, i, at, chosen, done, n, word_state;
    bool sent, took_back, used;
    byte batch_samples[SLOT_COUNT], batch_slots[SLOT_COUNT];

begin:
    /* dump goes on counting: what a child does in its first dump is what it does in all */
    atomic { mine = process; i = 0; at = 0; chosen = 0; done = 0; n = 0; word_state = 0; sent = 0; took_back = 0; used = 0 };
    {
        prepare();
        do
        :: dump < DUMPS ->
            signal_capture();
            settled();
            dump++
        :: else -> break
        od;
end:    false
    } unless {
        process != mine -> goto begin
    }
}

/* In the child: memory as it is at this moment, another probe thread, other threads, no pending signal. */
proctype fork()
{
    byte i;

    do
    :: process < FORKS ->
        atomic {
            process++;
            i = 0;
            do
            :: i < THREADS ->
                do
                :: pending[i]?_, _
                :: empty(pending[i]) -> break
                od;
                i++
            :: else -> break
            od;
            i = 0;
            do
            :: i < SLOT_COUNT ->
                libprobe_slots[i].holders = 0;
                /* Stale: nothing may depend on them. */
                libprobe_slots[i].stack_top = NOBODY;
                libprobe_slots[i].bytes[0] = 0;
                libprobe_slots[i].bytes[1] = 0;
                i++
            :: else -> break
            od;
            i = 0
        }
    :: break
    od
}

init
{
    byte tid;

    atomic {
        run probe();
        run fork();
        do
        :: tid < THREADS -> run thread(tid); tid++
        :: else -> break
        od
    }
}
