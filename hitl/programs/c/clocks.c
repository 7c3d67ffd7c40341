/* Clocks, sleeps, timers, and numbers that differ between two runs. */
#include "virtual_time.h"

/* -- clocks */

int64_t after(int64_t duration_ns) {
    return duration_ns > FOREVER - now_ns ? FOREVER : now_ns + duration_ns;
}

int64_t duration(int64_t s, int64_t ns) {
    return s >= FOREVER / SECOND - 1 ? FOREVER : s * SECOND + ns;
}

/* Times of a monotonic clock are far below the date, so that the value tells the clock. */
int64_t from_clock(const struct timespec *t) {
    int64_t ns = duration(t->tv_sec, t->tv_nsec);
    if (ns == FOREVER) return FOREVER;
    return ns >= EPOCH / 2 ? ns - EPOCH : ns - BOOT;
}

int valid(const struct timespec *t) { return t->tv_nsec >= 0 && t->tv_nsec < SECOND; }

static int64_t on_clock(clockid_t clock) {
    int date = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    return now_ns + (date ? EPOCH : BOOT);
}

static void read_clock(clockid_t clock, struct timespec *t) {
    if (self) look();
    int64_t ns = on_clock(clock);
    t->tv_sec = ns / SECOND, t->tv_nsec = ns % SECOND;
}

/* Threads of other origin see the time, but do not advance it. */
static int shown(void) {
    if (state == 0) start();
    if (state == 2 && !self) note("a thread that pthread_create did not start reads the clock");
    return state == 2;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *t) {
    if (!shown()) return (int)with_errno(own(SYS_clock_gettime, clock, (long)t, 0, 0));
    if (clock > CLOCK_TAI) {
        errno = EINVAL;
        return -1;
    }
    read_clock(clock, t);
    return 0;
}

EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    if (!shown()) return (int)with_errno(own(SYS_gettimeofday, (long)t, (long)zone, 0, 0));
    struct timespec found;
    read_clock(CLOCK_REALTIME, &found);
    t->tv_sec = found.tv_sec, t->tv_usec = found.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *t) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (t) *t = found.tv_sec;
    return found.tv_sec;
}

EXPORT int timespec_get(struct timespec *t, int base) {
    if (base != TIME_UTC) return 0;
    clock_gettime(CLOCK_REALTIME, t);
    return base;
}

EXPORT clock_t clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * CLOCKS_PER_SEC + t.tv_nsec / (SECOND / CLOCKS_PER_SEC);
}

EXPORT clock_t times(struct tms *found) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (found) memset(found, 0, sizeof *found);
    return t.tv_sec * 100 + t.tv_nsec / 10000000;
}

EXPORT int clock_settime(clockid_t clock, const struct timespec *t) {
    (void)clock, (void)t;
    errno = EPERM;
    return -1;
}

/* -- sleeps */

EXPORT int nanosleep(const struct timespec *t, struct timespec *left) {
    if (!active()) return (int)with_errno(own(SYS_nanosleep, (long)t, (long)left, 0, 0));
    if (t->tv_sec < 0 || !valid(t)) {
        errno = EINVAL;
        return -1;
    }
    sleep_until(after(duration(t->tv_sec, t->tv_nsec)));
    if (left) left->tv_sec = left->tv_nsec = 0;
    return 0;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left) {
    if (!active()) return (int)-own(SYS_clock_nanosleep, clock, flags, (long)t, (long)left);
    if (t->tv_sec < 0 || !valid(t)) return EINVAL;
    int64_t ns = flags & TIMER_ABSTIME ? from_clock(t) : after(duration(t->tv_sec, t->tv_nsec));
    if (ns > now_ns) sleep_until(ns);
    else look();
    return 0;
}

EXPORT int usleep(useconds_t us) {
    struct timespec t = {us / 1000000, (long)(us % 1000000) * 1000};
    return nanosleep(&t, NULL);
}

EXPORT unsigned sleep(unsigned s) {
    struct timespec t = {s, 0};
    nanosleep(&t, NULL);
    return 0;
}

EXPORT int thrd_sleep(const struct timespec *t, struct timespec *left) { return nanosleep(t, left); }

EXPORT int sched_yield(void) {
    if (!active()) return (int)with_errno(SYS(SYS_sched_yield, 0, 0, 0, 0, 0, 0));
    look();
    return 0;
}

EXPORT void thrd_yield(void) { sched_yield(); }

/* -- timers as descriptors */

struct timer *timer_of(int fd) {
    struct timer *t = timers;
    while (t && t->fd != fd) t = t->next;
    return t;
}

EXPORT int timerfd_create(int clock, int flags) {
    if (!active()) return (int)with_errno(SYS(SYS_timerfd_create, clock, flags, 0, 0, 0, 0));
    int how = (flags & TFD_NONBLOCK ? EFD_NONBLOCK : 0) | (flags & TFD_CLOEXEC ? EFD_CLOEXEC : 0);
    int fd = (int)with_errno(SYS(SYS_eventfd2, 0, how, 0, 0, 0, 0));
    struct timer *t = fd < 0 ? NULL : calloc(1, sizeof *t);
    if (t) t->fd = fd, t->due_ns = FOREVER, t->next = timers, timers = t;
    return fd;
}

static void timer_value(const struct timer *t, struct itimerspec *value) {
    int64_t left = t->due_ns == FOREVER ? 0 : t->due_ns > now_ns ? t->due_ns - now_ns : 1;
    value->it_value = (struct timespec){left / SECOND, left % SECOND};
    value->it_interval = (struct timespec){t->interval_ns / SECOND, t->interval_ns % SECOND};
}

EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old) {
    struct timer *t = active() ? timer_of(fd) : NULL;
    if (!t) return (int)with_errno(SYS(SYS_timerfd_settime, fd, flags, value, old, 0, 0));
    if (!valid(&value->it_value) || !valid(&value->it_interval)) {
        errno = EINVAL;
        return -1;
    }
    if (old) timer_value(t, old);
    struct pollfd file = {fd, POLLIN, 0};
    uint64_t count;
    if (ready_now(&file, 1)) SYS(SYS_read, fd, &count, sizeof count, 0, 0, 0);
    const struct timespec *first = &value->it_value;
    t->interval_ns = duration(value->it_interval.tv_sec, value->it_interval.tv_nsec);
    t->due_ns = FOREVER;
    if (first->tv_sec || first->tv_nsec)
        t->due_ns = flags & TFD_TIMER_ABSTIME ? from_clock(first) : after(duration(first->tv_sec, first->tv_nsec));
    expire(t);
    if (t->due_ns < next_ns) next_ns = t->due_ns;
    return 0;
}

EXPORT int timerfd_gettime(int fd, struct itimerspec *value) {
    struct timer *t = active() ? timer_of(fd) : NULL;
    if (!t) return (int)with_errno(SYS(SYS_timerfd_gettime, fd, value, 0, 0, 0, 0));
    timer_value(t, value);
    return 0;
}

static int used_here(int fd) {
    struct line *u = lines;
    while (u && u->other != fd) u = u->next;
    return fd == control || u;
}

EXPORT int eventfd_write(int fd, eventfd_t value) { return write(fd, &value, sizeof value) < 0 ? -1 : 0; }

EXPORT int shutdown(int fd, int how) {
    written = 1;
    return (int)with_errno(SYS(SYS_shutdown, fd, how, 0, 0, 0, 0));
}

EXPORT int close(int fd) {
    if (active()) {
        written = 1;
        if (used_here(fd)) { /* for programs that close all descriptors */
            errno = EBADF;
            return -1;
        }
        watch_no_more(fd);
        for (struct timer **at = &timers; *at; at = &(*at)->next) {
            struct timer *t = *at;
            if (t->fd != fd) continue;
            *at = t->next;
            free(t);
            break;
        }
        for (struct line **at = &lines; *at; at = &(*at)->next) {
            struct line *u = *at;
            if (u->fd != fd) continue;
            *at = u->next;
            SYS(SYS_close, u->other, 0, 0, 0, 0, 0);
            free(u);
            break;
        }
    }
    return (int)with_errno(SYS(SYS_close, fd, 0, 0, 0, 0, 0));
}

/* -- signals: they come from outside, or from the thread itself */

EXPORT int pause(void) {
    if (!active()) return REAL(pause)();
    sleep_until(FOREVER);
    errno = EINTR;
    return -1;
}

EXPORT int sigsuspend(const sigset_t *mask) { return active() ? pause() : REAL(sigsuspend)(mask); }

static int signal_until(const sigset_t *set, siginfo_t *info, int64_t wake_ns) {
    for (;;) {
        struct timespec none = {0, 0};
        int number = (int)with_errno(SYS(SYS_rt_sigtimedwait, set, info, &none, 8, 0, 0));
        if (number >= 0 || errno != EAGAIN) return number;
        if (now_ns >= wake_ns) return -1;
        block(TIME, NULL, wake_ns);
        pthread_testcancel();
    }
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict t) {
    return active() ? signal_until(set, info, timeout_ns(t)) : REAL(sigtimedwait)(set, info, t);
}

EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info) {
    return sigtimedwait(set, info, NULL);
}

EXPORT int sigwait(const sigset_t *restrict set, int *restrict number) {
    int found = sigtimedwait(set, NULL, NULL);
    if (found < 0) return errno;
    *number = found;
    return 0;
}

EXPORT pid_t getpid(void) {
    if (state == 2 && self) note("getpid(): the number of the process differs between two runs");
    return (pid_t)SYS(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* -- numbers from the system that would differ between two runs */

static uint64_t draw(void) { /* Marsaglia's xorshift64 */
    randomness ^= randomness << 13, randomness ^= randomness >> 7, randomness ^= randomness << 17;
    return randomness;
}

EXPORT ssize_t getrandom(void *data, size_t size, unsigned flags) {
    if (!active()) return with_errno(SYS(SYS_getrandom, data, size, flags, 0, 0, 0));
    for (size_t i = 0; i < size; i++) ((unsigned char *)data)[i] = (unsigned char)(draw() >> 24);
    return (ssize_t)size;
}

EXPORT int getentropy(void *data, size_t size) { return getrandom(data, size, 0) < 0 ? -1 : 0; }
