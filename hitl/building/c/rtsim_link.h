/* A link over shared memory between two processes of one machine: a queue of messages in each direction.
 *
 * Each queue has one writer and one reader.  A reader spins for a short time and then sleeps on a futex.
 * Each end keeps its own counters to itself, so the other end cannot make it read or write outside of
 * the segment; a counter or a length that cannot be right is reported as BROKEN.
 * The runtime makes the segment (hitl/worker/link.py); the worker inherits its file descriptor.
 */
#ifndef RTSIM_LINK_H
#define RTSIM_LINK_H

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LINK_VERSION = 1, LINK_SLOTS = 8, LINK_LINE = 64 };
enum { LINK_RUNTIME = 0, LINK_WORKER = 1 };
enum { LINK_NONE = -1, LINK_BROKEN = -2, LINK_TOO_LONG = -3 };
enum { LINK_MOST_BYTES = 1 << 20 };
enum { LINK_SPIN_MOST_NS = 100000, LINK_SPIN_LEAST_NS = 2000, LINK_SPIN_ALONE_NS = 1000 };
enum { LINK_SPIN_ANNOUNCED_NS = 300000 }; /* longer than most busy-waits of a loop before a tag */

struct link_queue {
    _Alignas(LINK_LINE) _Atomic uint32_t written; /* messages so far; the reader sleeps on it */
    _Alignas(LINK_LINE) _Atomic uint32_t read;
    _Alignas(LINK_LINE) _Atomic uint32_t asleep; /* the reader has to be woken */
};

struct link_segment {
    char magic[4];
    uint32_t version, slots, slot_bytes;
    _Atomic uint32_t closed[2]; /* by the end that closed it */
    struct link_queue queues[2]; /* by the end that writes */
};

struct link_slot {
    _Alignas(LINK_LINE) uint32_t size;
    _Alignas(LINK_LINE) char data[];
};

struct link_end {
    struct link_segment *segment;
    size_t bytes, slot_bytes, stride;
    struct link_queue *out, *in;
    char *out_slots, *in_slots;
    uint32_t written, read; /* of out and in; the copies in the segment are for the other end */
    int side;
    int64_t spin_ns, spin_most_ns;
};

static inline int64_t link_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline size_t link_stride(size_t slot_bytes)
{
    return sizeof(struct link_slot) + (slot_bytes + LINK_LINE - 1) / LINK_LINE * LINK_LINE;
}

/* The size of a segment whose messages have at most slot_bytes. */
static inline size_t link_bytes(size_t slot_bytes)
{
    return sizeof(struct link_segment) + 2 * LINK_SLOTS * link_stride(slot_bytes);
}

/* One end that spins takes its processor from others.  It does not spin where the other end could not
 * run meanwhile, because this process may use one processor only. */
static inline int64_t link_spin_most(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int one = sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) < 2;
    return one ? 0 : LINK_SPIN_MOST_NS;
}

/* Map the segment of fd; 0 if it is not what both ends expect.  The runtime formats it, and gives the
 * size of the longest message; the worker gives 0. */
static inline int link_open(struct link_end *end, int fd, int side, size_t slot_bytes)
{
    struct stat about;
    if (fstat(fd, &about) != 0 || about.st_size < (off_t)sizeof(struct link_segment)) return 0;
    const size_t bytes = (size_t)about.st_size;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return 0;
    struct link_segment *segment = memory;
    if (side == LINK_RUNTIME) {
        memcpy(segment->magic, "RTSL", 4);
        segment->version = LINK_VERSION;
        segment->slots = LINK_SLOTS;
        segment->slot_bytes = (uint32_t)slot_bytes;
    }
    slot_bytes = segment->slot_bytes; /* read once: the other end could change it */
    if (memcmp(segment->magic, "RTSL", 4) != 0 || segment->version != LINK_VERSION ||
        segment->slots != LINK_SLOTS || slot_bytes > LINK_MOST_BYTES ||
        bytes != link_bytes(slot_bytes)) {
        munmap(memory, bytes);
        return 0;
    }
    memset(end, 0, sizeof *end);
    end->segment = segment;
    end->bytes = bytes;
    end->slot_bytes = slot_bytes;
    end->stride = link_stride(slot_bytes);
    end->side = side;
    end->out = &segment->queues[side];
    end->in = &segment->queues[!side];
    char *slots = (char *)memory + sizeof *segment;
    end->out_slots = slots + (size_t)side * LINK_SLOTS * end->stride;
    end->in_slots = slots + (size_t)!side * LINK_SLOTS * end->stride;
    end->spin_ns = end->spin_most_ns = link_spin_most();
    return 1;
}

static inline void link_wake(struct link_queue *queue)
{
    enum { FUTEX_WAKE_SHARED = 1 };
    syscall(SYS_futex, &queue->written, FUTEX_WAKE_SHARED, INT_MAX, NULL, NULL, 0);
}

/* 1: sent; 0: the queue is full; else an error. */
static inline int link_send(struct link_end *end, const void *data, size_t size)
{
    if (size > end->slot_bytes) return LINK_TOO_LONG;
    struct link_queue *queue = end->out;
    const uint32_t waiting =
        end->written - atomic_load_explicit(&queue->read, memory_order_acquire);
    if (waiting > LINK_SLOTS) return LINK_BROKEN;
    if (waiting == LINK_SLOTS) return 0;
    struct link_slot *slot = (void *)(end->out_slots + end->written % LINK_SLOTS * end->stride);
    slot->size = (uint32_t)size;
    memcpy(slot->data, data, size);
    /* Both ends write their own word before they read the other's: one of them sees the other. */
    atomic_store(&queue->written, ++end->written);
    if (atomic_load(&queue->asleep)) link_wake(queue);
    return 1;
}

/* The size of the next message, of which at most `most` bytes are copied; or NONE, or BROKEN.  The
 * message stays in the queue. */
static inline int link_peek(struct link_end *end, void *into, size_t most)
{
    struct link_queue *queue = end->in;
    const uint32_t waiting =
        atomic_load_explicit(&queue->written, memory_order_acquire) - end->read;
    if (waiting == 0) return LINK_NONE;
    if (waiting > LINK_SLOTS) return LINK_BROKEN;
    const struct link_slot *slot =
        (void *)(end->in_slots + end->read % LINK_SLOTS * end->stride);
    const uint32_t size = *(const volatile uint32_t *)&slot->size; /* read once, then checked */
    if (size > end->slot_bytes) return LINK_BROKEN;
    memcpy(into, slot->data, size < most ? size : most);
    return (int)size;
}

/* Remove the message that link_peek found. */
static inline void link_pop(struct link_end *end)
{
    atomic_store_explicit(&end->in->read, ++end->read, memory_order_release);
}

static inline void link_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static inline int link_closed(const struct link_end *end)
{
    return atomic_load(&end->segment->closed[!end->side]) != 0;
}

/* Sleep until a message comes, a signal, or until_ns. */
static inline void link_sleep(struct link_end *end, int64_t until_ns)
{
    enum { FUTEX_WAIT_SHARED = 0 };
    struct link_queue *queue = end->in;
    const int64_t rest = until_ns - link_now();
    if (rest <= 0) return;
    const struct timespec time = {rest / 1000000000, rest % 1000000000};
    atomic_store(&queue->asleep, 1);
    if (atomic_load(&queue->written) == end->read && !link_closed(end))
        syscall(SYS_futex, &queue->written, FUTEX_WAIT_SHARED, end->read, &time, NULL, 0);
    atomic_store(&queue->asleep, 0);
}

/* Wake the other end, if it sleeps, because a message will follow soon: then the message does not have
 * to wait for the other end to wake up. */
static inline void link_announce(struct link_end *end)
{
    if (atomic_load(&end->out->asleep)) link_wake(end->out);
}

/* As link_peek, but spin until until_ns, and for at most spin_ns.  A long spin yields the processor again
 * and again: if all processors are busy, the other end may be waiting for this one. */
static inline int link_spin(struct link_end *end, void *into, size_t most, int64_t spin_ns,
                            int64_t until_ns)
{
    const int64_t began = link_now();
    const int64_t spin_until = began + spin_ns < until_ns ? began + spin_ns : until_ns;
    int size = LINK_NONE;
    for (int64_t now = began; now < spin_until && size == LINK_NONE;) {
        for (int k = 0; k < 4 && atomic_load_explicit(&end->in->written, memory_order_relaxed) ==
                                      end->read; k++)
            link_relax();
        size = link_peek(end, into, most);
        now = link_now();
        if (size == LINK_NONE && now - began > LINK_SPIN_ALONE_NS) sched_yield();
    }
    return size;
}

/* As link_peek, but wait until until_ns of CLOCK_MONOTONIC; a signal ends the wait early.
 *
 * The wait spins at first.  It spins for a long time only if the last wait was short, so that a loop
 * with long pauses does not spin in vain, or if the other end has announced a message. */
static inline int link_await(struct link_end *end, void *into, size_t most, int64_t until_ns)
{
    int size = link_peek(end, into, most);
    if (size != LINK_NONE || link_closed(end)) return size;
    const int64_t began = link_now();
    size = link_spin(end, into, most, end->spin_ns, until_ns);
    if (size == LINK_NONE) {
        link_sleep(end, until_ns);
        size = link_peek(end, into, most);
        if (size == LINK_NONE && end->spin_most_ns != 0 && !link_closed(end))
            size = link_spin(end, into, most, LINK_SPIN_ANNOUNCED_NS, until_ns);
    }
    const int64_t now = link_now();
    if (until_ns <= began) return size;
    const int paid = size != LINK_NONE && now - began <= LINK_SPIN_MOST_NS;
    end->spin_ns = paid ? end->spin_most_ns : end->spin_most_ns / LINK_SPIN_MOST_NS * LINK_SPIN_LEAST_NS;
    return size;
}

/* As link_await, and remove the message. */
static inline int link_receive(struct link_end *end, void *into, size_t most, int64_t until_ns)
{
    const int size = link_await(end, into, most, until_ns);
    if (size >= 0) link_pop(end);
    return size;
}

static inline void link_close(struct link_end *end)
{
    atomic_store(&end->segment->closed[end->side], 1);
    link_wake(end->out);
    munmap(end->segment, end->bytes);
    end->segment = NULL;
}

#endif
