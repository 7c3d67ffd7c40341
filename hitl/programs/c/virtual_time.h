/* Virtual time for a program that nobody changed.
 *
 * The dynamic linker loads this library before the C library.  The library replaces the functions
 * that read a clock, that wait, and that start or synchronise threads.
 *
 * Time: `now` is the time of the program, ns since its start.  The simulator grants time up to
 * `limit`.  `now` advances only when no thread can run, to the next time for which a thread waits,
 * and by LOOK when a thread reads a clock or polls, so that a busy loop comes to an end.
 *
 * Threads: one thread runs at a time.  A thread runs until it waits; then the thread that has been
 * able to run for the longest time is next.  The order of the threads therefore depends on the
 * calls of the program and on the times of the messages alone.
 *
 * Sockets: a UDP socket with a declared port is one end of a pair of local sockets.  This library
 * holds the other end.  It takes the datagrams of the program, and delivers each datagram of the
 * simulator at the time of its arrival.
 */
#ifndef VIRTUAL_TIME_H
#define VIRTUAL_TIME_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <threads.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#else
#include <linux/futex.h>
#endif

#define EXPORT __attribute__((visibility("default")))
#define FOREVER INT64_MAX
#define SECOND 1000000000LL
#define EPOCH (1767225600LL * SECOND) /* the date at the start: 2026-01-01 */
#define BOOT SECOND                   /* what the monotonic clocks show at the start */
#define MOST_PORTS 64
#define MOST_DATAGRAM 65507
#define MOST_WAITING 1024 /* datagrams in a socket */
#define MOST_NOTES 128
#define MOST_OUTGOING (64u << 20) /* bytes that the program sends before the simulator reads them */
#define MOST_SENDS 1000 /* at one time; each further one takes LOOK, so that a loop comes to an end */

/* -- system calls that neither this library nor the C library replaces */

#if defined(__x86_64__)
static inline long sys(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long sys(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
#error "virtual time needs x86-64 or AArch64"
#endif

#define SYS(number, a, b, c, d, e, f) \
    sys(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* The filter of system calls lets a call pass that has this number as its sixth argument. */
#define COOKIE 0x7274736974696d65L

static inline long own(long number, long a, long b, long c, long d) { return sys(number, a, b, c, d, 0, COOKIE); }

/* The name of a system call for a clock or a sleep, or NULL for another call. */
static inline const char *clock_call(long number) {
#ifdef SYS_time
    if (number == SYS_time) return "time";
#endif
    return number == SYS_clock_gettime     ? "clock_gettime"
           : number == SYS_gettimeofday    ? "gettimeofday"
           : number == SYS_nanosleep       ? "nanosleep"
           : number == SYS_clock_nanosleep ? "clock_nanosleep"
                                           : NULL;
}

static inline long with_errno(long result) {
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

static inline int ready_now(struct pollfd *fds, nfds_t count) {
    struct timespec none = {0, 0};
    return (int)SYS(SYS_ppoll, fds, count, &none, 0, 8, 0);
}

/* The function of the C library that this library replaces. */
#define REAL(name)                                                                  \
    ({                                                                              \
        static __typeof__(&name) next;                                              \
        if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);               \
        next;                                                                       \
    })

/* -- state; only the running thread uses it */

enum waiting { NOTHING, TIME, MUTEX, CONDITION, SEMAPHORE, RWLOCK, BARRIER, THREAD_END, FILES, WORD };

struct thread {
    struct thread *next;  /* in the queue of threads that can run */
    struct thread *after; /* in the list of all threads */
    pthread_t id;
    int number, turn, ended, endings, detached, queued, woken;
    enum waiting waits;
    const void *key;
    int64_t wake_ns;
    uint64_t ticket;
    struct pollfd *files;
    nfds_t count;
    int foreign; /* one of the files is neither a declared socket nor a timer */
    void *(*function)(void *);
    void *argument;
};

struct datagram {
    struct datagram *next;
    int64_t at_ns;
    uint16_t to, from;
    uint32_t length;
    unsigned char data[];
};

struct timer {
    struct timer *next;
    int fd;
    int64_t due_ns, interval_ns;
};

enum kind { DATAGRAMS, LISTENING, STREAM };

struct line { /* a socket of the program with a declared port */
    struct line *next;
    enum kind kind;
    int fd, other, local, peer, accepted, unsent;
    int64_t patience_ns;
    unsigned first, count;
    uint16_t from[MOST_WAITING];
};

struct barrier {
    struct barrier *next;
    const void *key;
    unsigned wanted, arrived, generation;
};

extern int state;
extern int control;
extern pid_t owner;
extern int64_t now_ns, limit_ns, look_ns, next_ns;
extern unsigned stops;
extern int written;
extern uint64_t tickets, randomness;
extern int threads;
extern struct thread *all, *first_in_queue, *last_in_queue;
extern struct datagram *arrivals;
extern struct timer *timers;
extern struct line *lines;
extern struct barrier *barriers;
extern int ports_in[MOST_PORTS], ports_out[MOST_PORTS], count_in, count_out, ephemeral;
extern int other_ports; /* whether sockets with other ports use the network */
extern char notes[MOST_NOTES][160];
extern int note_count, notes_sent;
extern __thread struct thread *self;
extern pthread_key_t at_end;
extern struct thread main_thread;

/* Whether the calling thread has the turn, so that its calls are in virtual time. */
int active(void);
void start(void);
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void give_up(const char *why);
void enqueue(struct thread *t);
void wake_thread(struct thread *t, int by_event);
int wake(enum waiting waits, const void *key, int most);
struct thread *choose(void);
void hand_over(struct thread *to);
void wait_turn(struct thread *t);
int block(enum waiting waits, const void *key, int64_t wake_ns);
void give_way(void);
void send_datagram(int port, int from, const struct iovec *parts, size_t count, size_t size);
void expire(struct timer *t);
struct timer *timer_of(int fd);
int block_files(struct pollfd *files, nfds_t count, int64_t wake_ns);
void look(void);
void sleep_until(int64_t ns);
void thread_ends(void *value);
struct line *make_line(enum kind kind, int fd, int local, int peer);
struct line *line_of(int fd);
void watch_again(int fd);
void watch_no_more(int fd);
void set_traps(void);
void without_traps(void);
void trap_counter(int yes);
int64_t after(int64_t duration_ns);
int64_t duration(int64_t s, int64_t ns);
int64_t from_clock(const struct timespec *t);
int64_t timeout_ns(const struct timespec *t);
int valid(const struct timespec *t);
int in_virtual_time(long number, const long *a, long *result);

#endif
