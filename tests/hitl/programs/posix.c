/* What POSIX says of the calls that virtual time replaces:  posix SUBJECT
 *
 * Each subject holds on the wall clock too, where times are lower bounds.  With RTSIM_VIRTUAL_TIME
 * in the environment, times are exact within a few reads of the clock. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
static int failures, virtual;

#define CHECK(what)                                                   \
    do                                                                \
        if (!(what)) printf("line %d: %s\n", __LINE__, #what), failures++; \
    while (0)

static int64_t ns_of(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }
static int64_t now_on(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return ns_of(t);
}
static int64_t now(void) { return now_on(CLOCK_MONOTONIC); }
static struct timespec span(int64_t ns) { return (struct timespec){ns / 1000000000, ns % 1000000000}; }
static struct timespec in(clockid_t clock, int64_t ns) { return span(now_on(clock) + ns); }

#define TAKES(ms, ...)                                                              \
    do {                                                                             \
        int64_t begun = now();                                                       \
        __VA_ARGS__;                                                                 \
        int64_t took = now() - begun, wanted = (int64_t)(ms) * MS;                   \
        if (took < wanted - 20000 || (virtual && took > wanted + 20000))             \
            printf("line %d: took %lld ns\n", __LINE__, (long long)took), failures++; \
    } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int shared;

static void clocks(void) {
    int64_t a = now(), b = now();
    CHECK(b > a || !virtual);
    CHECK(b >= a);
    struct timespec t;
    struct timeval v;
    CHECK(!clock_gettime(CLOCK_REALTIME, &t) && !gettimeofday(&v, NULL));
    int64_t wall = ns_of(t), of_day = v.tv_sec * 1000000000LL + v.tv_usec * 1000LL;
    CHECK(of_day - wall >= -1000 && of_day - wall < 1000 * MS);
    CHECK(llabs((long long)time(NULL) - t.tv_sec) <= 1);
    CHECK(timespec_get(&t, TIME_UTC) == TIME_UTC && ns_of(t) >= wall);
    CHECK(clock_gettime(999, &t) == -1 && errno == EINVAL);
    CHECK(clock_settime(CLOCK_REALTIME, &t) == -1 || !virtual);
    CHECK(clock() != (clock_t)-1 && times(NULL) != (clock_t)-1);
    struct timespec direct;
    CHECK(!syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &direct));
    CHECK(llabs((long long)(now() - ns_of(direct))) < (virtual ? 10000 : 1000 * MS));
    if (virtual) CHECK(now() < 1100 * MS); /* the clock begins at 1 s, and computing takes no time */
    for (volatile int k = 0; k < 20000000; k++);
    if (virtual) CHECK(now() < 1100 * MS);
}

static void sleeps(void) {
    struct timespec t = span(20 * MS), left = {7, 7}, bad = {0, 1000000000};
    TAKES(20, CHECK(!nanosleep(&t, &left)));
    TAKES(20, CHECK(!clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL)));
    TAKES(5, usleep(5000));
    TAKES(20, CHECK(!thrd_sleep(&t, NULL)));
    TAKES(30, t = in(CLOCK_MONOTONIC, 30 * MS); CHECK(!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)));
    TAKES(30, t = in(CLOCK_REALTIME, 30 * MS); CHECK(!clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL)));
    TAKES(0, CHECK(!clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL))); /* past */
    CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL) == EINVAL);
    t = span(10 * MS);
    TAKES(10, CHECK(!syscall(SYS_nanosleep, &t, NULL)));
    TAKES(10, CHECK(!syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL)));
    if (virtual) TAKES(3600000, sleep(3600));
    sched_yield(), thrd_yield();
    int64_t due = now();
    for (int k = 0; k < 10; k++) {
        due += 10 * MS;
        t = span(due);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        if (virtual) CHECK(now() - due <= 2000);
    }
}

static void *signals_later(void *value) {
    usleep(10000);
    pthread_mutex_lock(&mutex);
    shared = 1;
    value ? pthread_cond_broadcast(&condition) : pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void *signals_at_once(void *value) {
    pthread_mutex_lock(&mutex);
    shared = 1;
    pthread_cond_signal(&condition);
    pthread_mutex_unlock(&mutex);
    return value;
}

static void conditions(void) {
    pthread_condattr_t attributes;
    pthread_cond_t monotonic;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic, &attributes);
    struct timespec t, bad = {0, -1};
    pthread_mutex_lock(&mutex);
    TAKES(15, t = in(CLOCK_REALTIME, 15 * MS); CHECK(pthread_cond_timedwait(&condition, &mutex, &t) == ETIMEDOUT));
    TAKES(15, t = in(CLOCK_MONOTONIC, 15 * MS); CHECK(pthread_cond_timedwait(&monotonic, &mutex, &t) == ETIMEDOUT));
    TAKES(15, t = in(CLOCK_MONOTONIC, 15 * MS);
          CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &t) == ETIMEDOUT));
    TAKES(0, CHECK(pthread_cond_timedwait(&monotonic, &mutex, &t) == ETIMEDOUT));
    CHECK(pthread_cond_timedwait(&condition, &mutex, &bad) == EINVAL);
    for (intptr_t all = 0; all < 2; all++) {
        pthread_t thread;
        shared = 0;
        TAKES(10, pthread_create(&thread, NULL, signals_later, (void *)all);
              while (!shared) CHECK(!pthread_cond_wait(&condition, &mutex)));
        pthread_mutex_unlock(&mutex), pthread_join(thread, NULL), pthread_mutex_lock(&mutex);
    }
    shared = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, signals_at_once, NULL);
    usleep(1000); /* the thread waits for the mutex, and must have it during the wait */
    while (!shared) CHECK(!pthread_cond_wait(&condition, &mutex));
    pthread_mutex_unlock(&mutex), pthread_join(thread, NULL), pthread_mutex_lock(&mutex);
    t = in(CLOCK_REALTIME, 1000 * MS);
    shared = 0;
    pthread_create(&thread, NULL, signals_later, NULL);
    TAKES(10, while (!shared) CHECK(!pthread_cond_timedwait(&condition, &mutex, &t)));
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}

static void *holds(void *value) {
    pthread_mutex_lock(value);
    usleep(20000);
    pthread_mutex_unlock(value);
    return NULL;
}

static void mutexes(void) {
    pthread_mutex_t kinds[3];
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (int k = 0; k < 3; k++) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_settype(&attributes, types[k]);
        pthread_mutex_t *m = &kinds[k];
        pthread_mutex_init(m, &attributes);
        CHECK(!pthread_mutex_lock(m));
        if (k == 1) CHECK(!pthread_mutex_lock(m) && !pthread_mutex_unlock(m) && !pthread_mutex_trylock(m) && !pthread_mutex_unlock(m));
        if (k == 2) CHECK(pthread_mutex_lock(m) == EDEADLK);
        if (k != 1) CHECK(pthread_mutex_trylock(m) == EBUSY);
        CHECK(!pthread_mutex_unlock(m));
        if (k == 2) CHECK(pthread_mutex_unlock(m) == EPERM);
        pthread_t thread;
        pthread_create(&thread, NULL, holds, m);
        usleep(10000);
        struct timespec t = in(CLOCK_REALTIME, 5 * MS);
        TAKES(5, CHECK(pthread_mutex_timedlock(m, &t) == ETIMEDOUT));
        t = in(CLOCK_MONOTONIC, 1 * MS);
        TAKES(1, CHECK(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t) == ETIMEDOUT));
        TAKES(4, CHECK(!pthread_mutex_lock(m)));
        CHECK(!pthread_mutex_unlock(m));
        pthread_join(thread, NULL);
        CHECK(!pthread_mutex_destroy(m));
    }
}

static void *takes_turns(void *value) { /* each holds the mutex while it sleeps */
    for (int k = 0; k < 5; k++) {
        pthread_mutex_lock(&mutex);
        shared = shared * 2 + (int)(intptr_t)value;
        usleep(1000);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void fairness(void) {
    pthread_t threads[2];
    shared = 0;
    for (intptr_t k = 0; k < 2; k++) pthread_create(&threads[k], NULL, takes_turns, (void *)k);
    for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
    if (virtual) CHECK(shared == 0x155); /* 0101010101 in binary: nobody waits for ever */
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static void *writes(void *value) {
    pthread_rwlock_wrlock(&rwlock);
    usleep(20000);
    pthread_rwlock_unlock(&rwlock);
    return value;
}

static void rwlocks(void) {
    pthread_t thread;
    CHECK(!pthread_rwlock_rdlock(&rwlock) && !pthread_rwlock_rdlock(&rwlock));
    CHECK(pthread_rwlock_trywrlock(&rwlock) == EBUSY);
    struct timespec t = in(CLOCK_REALTIME, 5 * MS);
    TAKES(5, CHECK(pthread_rwlock_timedwrlock(&rwlock, &t) == ETIMEDOUT));
    CHECK(!pthread_rwlock_unlock(&rwlock) && !pthread_rwlock_unlock(&rwlock));
    pthread_create(&thread, NULL, writes, NULL);
    usleep(10000);
    t = in(CLOCK_REALTIME, 5 * MS);
    TAKES(5, CHECK(pthread_rwlock_timedrdlock(&rwlock, &t) == ETIMEDOUT));
    TAKES(5, CHECK(!pthread_rwlock_rdlock(&rwlock)));
    CHECK(!pthread_rwlock_unlock(&rwlock));
    pthread_join(thread, NULL);
}

static sem_t semaphore;
static void *posts(void *value) {
    usleep(10000);
    sem_post(&semaphore);
    return value;
}

static void semaphores(void) {
    pthread_t thread;
    sem_init(&semaphore, 0, 1);
    CHECK(!sem_wait(&semaphore));
    CHECK(sem_trywait(&semaphore) == -1 && errno == EAGAIN);
    struct timespec t = in(CLOCK_REALTIME, 5 * MS);
    TAKES(5, CHECK(sem_timedwait(&semaphore, &t) == -1 && errno == ETIMEDOUT));
    pthread_create(&thread, NULL, posts, NULL);
    TAKES(10, CHECK(!sem_wait(&semaphore)));
    pthread_join(thread, NULL);
}

static pthread_barrier_t barrier;
static void *meets(void *value) {
    usleep(10000 * (useconds_t)(intptr_t)value);
    int result = pthread_barrier_wait(&barrier);
    return (void *)(intptr_t)(result == PTHREAD_BARRIER_SERIAL_THREAD);
}

static void barriers(void) {
    pthread_t threads[3];
    CHECK(!pthread_barrier_init(&barrier, NULL, 3));
    for (int round = 0; round < 2; round++) {
        void *serial;
        int serials = 0;
        TAKES(20, for (intptr_t k = 0; k < 3; k++) pthread_create(&threads[k], NULL, meets, (void *)k);
              for (int k = 0; k < 3; k++) pthread_join(threads[k], &serial), serials += serial != NULL);
        CHECK(serials == 1);
    }
    CHECK(!pthread_barrier_destroy(&barrier));
}

static int cleaned, destroyed;
static void clean(void *value) { cleaned = (int)(intptr_t)value; }
static void destroys(void *value) { destroyed += (int)(intptr_t)value; }
static pthread_key_t key;
static void *sleeps_long(void *value) {
    pthread_setspecific(key, (void *)1);
    pthread_cleanup_push(clean, (void *)5);
    sleep((unsigned)(intptr_t)value);
    pthread_cleanup_pop(0);
    return NULL;
}
static void *waits_semaphore(void *value) {
    sem_wait(&semaphore);
    return value;
}
static void unlocks(void *value) { pthread_mutex_unlock(value); }
static void *waits_condition(void *value) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlocks, &mutex);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
    return value;
}
static void *waits_file(void *value) {
    struct pollfd file = {*(int *)value, POLLIN, 0};
    poll(&file, 1, -1);
    return value;
}
static void *exits(void *value) { pthread_exit(value); }
static void *short_sleep(void *value) {
    usleep(10000);
    return value;
}

static void ends(void) {
    pthread_t thread;
    void *result;
    struct timespec t;
    pthread_key_create(&key, destroys);
    pthread_create(&thread, NULL, short_sleep, &result);
    CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
    TAKES(5, t = in(CLOCK_REALTIME, 5 * MS); CHECK(pthread_timedjoin_np(thread, &result, &t) == ETIMEDOUT));
    TAKES(5, CHECK(!pthread_join(thread, &result)));
    CHECK(result == &result);
    pthread_create(&thread, NULL, exits, &t);
    CHECK(!pthread_join(thread, &result) && result == &t);
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
    pthread_create(&thread, NULL, short_sleep, NULL);
    CHECK(!pthread_detach(thread));
    usleep(20000);
    /* cancelled in a sleep, a semaphore, a condition, a file, and before it runs */
    TAKES(1, pthread_create(&thread, NULL, sleeps_long, (void *)1000); usleep(1000); CHECK(!pthread_cancel(thread));
          CHECK(!pthread_join(thread, &result)));
    CHECK(result == PTHREAD_CANCELED && cleaned == 5 && destroyed == 1);
    sem_init(&semaphore, 0, 0);
    int never[2];
    CHECK(!pipe(never));
    void *(*functions[])(void *) = {waits_semaphore, waits_condition, waits_file};
    for (int k = 0; k < 3; k++) {
        pthread_create(&thread, NULL, functions[k], never);
        usleep(1000);
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
    }
    CHECK(!pthread_mutex_trylock(&mutex) && !pthread_mutex_unlock(&mutex));
}

static int runs;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag flag = ONCE_FLAG_INIT;
static void slow(void) { usleep(10000), runs++; }
static void *first(void *value) {
    pthread_once(&once, slow);
    call_once(&flag, slow);
    return (void *)(intptr_t)(runs == 2 ? 0 : 1 + (value != NULL));
}

static void onces(void) {
    pthread_t threads[2];
    void *result;
    for (int k = 0; k < 2; k++) pthread_create(&threads[k], NULL, first, NULL);
    for (int k = 0; k < 2; k++) {
        pthread_join(threads[k], &result);
        CHECK(!result);
    }
    CHECK(runs == 2);
}

static mtx_t c11_mutex;
static cnd_t c11_condition;
static int c11_thread(void *value) {
    struct timespec t = span(10 * MS);
    thrd_sleep(&t, NULL);
    mtx_lock(&c11_mutex);
    *(int *)value = 1;
    cnd_signal(&c11_condition);
    mtx_unlock(&c11_mutex);
    return 42;
}

static void c11(void) {
    thrd_t thread;
    int done = 0, result = 0;
    struct timespec t;
    mtx_init(&c11_mutex, mtx_timed), cnd_init(&c11_condition);
    CHECK(thrd_create(&thread, c11_thread, &done) == thrd_success);
    mtx_lock(&c11_mutex);
    CHECK(mtx_trylock(&c11_mutex) == thrd_busy);
    TAKES(10, while (!done) cnd_wait(&c11_condition, &c11_mutex));
    TAKES(5, timespec_get(&t, TIME_UTC); t = span(ns_of(t) + 5 * MS);
          CHECK(cnd_timedwait(&c11_condition, &c11_mutex, &t) == thrd_timedout));
    TAKES(5, timespec_get(&t, TIME_UTC); t = span(ns_of(t) + 5 * MS);
          CHECK(mtx_timedlock(&c11_mutex, &t) == thrd_timedout));
    mtx_unlock(&c11_mutex);
    CHECK(thrd_join(thread, &result) == thrd_success && result == 42);
}

static void timers(void) {
    uint64_t count = 0;
    struct itimerspec once_only = {{0, 0}, {0, 10 * MS}}, often = {{0, 10 * MS}, {0, 5 * MS}}, off = {0}, left;
    int fd = timerfd_create(CLOCK_MONOTONIC, 0), other = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    CHECK(!timerfd_settime(fd, 0, &once_only, NULL));
    TAKES(10, CHECK(read(fd, &count, sizeof count) == 8 && count == 1));
    CHECK(!timerfd_gettime(fd, &left) && !left.it_value.tv_sec && !left.it_value.tv_nsec);
    CHECK(!timerfd_settime(fd, 0, &often, NULL));
    TAKES(5, CHECK(read(fd, &count, sizeof count) == 8 && count == 1));
    CHECK(!timerfd_gettime(fd, &left) && left.it_value.tv_nsec <= 10 * MS && left.it_interval.tv_nsec == 10 * MS);
    TAKES(35, usleep(35000));
    CHECK(read(fd, &count, sizeof count) == 8 && (virtual ? count == 3 : count >= 3)); /* overrun */
    CHECK(!timerfd_settime(fd, 0, &off, &left) && left.it_interval.tv_nsec == 10 * MS);
    struct pollfd file = {fd, POLLIN, 0};
    TAKES(20, CHECK(poll(&file, 1, 20) == 0));
    CHECK(read(other, &count, sizeof count) == -1 && errno == EAGAIN);
    struct itimerspec absolute = {{0, 0}, in(CLOCK_REALTIME, 10 * MS)};
    CHECK(!timerfd_settime(other, TFD_TIMER_ABSTIME, &absolute, NULL));
    file.fd = other;
    TAKES(10, CHECK(poll(&file, 1, -1) == 1 && file.revents == POLLIN));
    CHECK(read(other, &count, sizeof count) == 8 && count == 1);
    CHECK(!timerfd_settime(other, TFD_TIMER_ABSTIME, &absolute, NULL)); /* past: due at once */
    CHECK(poll(&file, 1, 0) == 1 && read(other, &count, sizeof count) == 8);
    struct itimerspec bad = {{0, 0}, {0, 1000000000}};
    CHECK(timerfd_settime(fd, 0, &bad, NULL) == -1 && errno == EINVAL);
    close(fd), close(other);
    CHECK(read(fd, &count, sizeof count) == -1 && errno == EBADF);
}

struct later {
    int fd, how;
};

static void *writes_later(void *value) {
    struct later *later = value;
    usleep(10000);
    uint64_t one = 1;
    if (later->how == 0) CHECK(write(later->fd, &one, sizeof one) == 8);
    if (later->how == 1) dprintf(later->fd, "12345678"); /* the C library writes, unseen */
    if (later->how == 2) close(later->fd);
    return NULL;
}

static int readable(int how, int fd, int ms) {
    struct timespec t = span(ms * MS);
    struct timeval v = {0, ms * 1000};
    if (how == 0) return poll(&(struct pollfd){fd, POLLIN, 0}, 1, ms);
    if (how == 1) return ppoll(&(struct pollfd){fd, POLLIN, 0}, 1, &t, NULL);
    if (how <= 3) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        int found = how == 2 ? select(fd + 1, &set, NULL, NULL, &v) : pselect(fd + 1, &set, NULL, NULL, &t, NULL);
        CHECK(!!FD_ISSET(fd, &set) == (found == 1));
        return found;
    }
    struct epoll_event event = {EPOLLIN, {.fd = fd}}, got = {0};
    int set = epoll_create1(0);
    CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &event));
    int found = how == 4 ? epoll_wait(set, &got, 1, ms) : how == 5 ? epoll_pwait(set, &got, 1, ms, NULL) : epoll_pwait2(set, &got, 1, &t, NULL);
    CHECK(found < 1 || got.data.fd == fd);
    close(set);
    return found;
}

static void files(void) {
    for (int how = 0; how < 7; how++) {
        pthread_t thread;
        uint64_t value;
        int ends[2], event = eventfd(0, 0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
        CHECK(!pipe(ends));
        TAKES(5, CHECK(readable(how, ends[0], 5) == 0));
        CHECK(readable(how, ends[0], 0) == 0);
        for (int writer = 0; writer < 3; writer++) {
            struct later later = {ends[1], writer};
            pthread_create(&thread, NULL, writes_later, &later);
            TAKES(10, CHECK(readable(how, ends[0], 1000) == 1));
            pthread_join(thread, NULL);
            if (writer < 2) CHECK(read(ends[0], &value, 8) == 8);
            else CHECK(read(ends[0], &value, 8) == 0);
        }
        struct later later = {event, 0};
        pthread_create(&thread, NULL, writes_later, &later);
        TAKES(10, CHECK(readable(how, event, 1000) == 1));
        pthread_join(thread, NULL);
        struct itimerspec soon = {{0, 0}, {0, 7 * MS}};
        timerfd_settime(timer, 0, &soon, NULL);
        TAKES(7, CHECK(readable(how, timer, 1000) == 1));
        close(ends[0]), close(event), close(timer);
    }
    struct timeval v = {0, 3000};
    TAKES(3, CHECK(select(0, NULL, NULL, NULL, &v) == 0));
    CHECK(poll(&(struct pollfd){999, POLLIN, 0}, 1, 10) == 1);
    fd_set set;
    FD_ZERO(&set);
        FD_SET(999, &set);
    CHECK(select(1000, &set, NULL, NULL, &v) == -1 && errno == EBADF);
    /* a full pipe: the writer waits for the reader */
    int ends[2];
    CHECK(!pipe(ends));
    static char block[65536];
    CHECK(write(ends[1], block, sizeof block) == sizeof block);
    CHECK(poll(&(struct pollfd){ends[1], POLLOUT, 0}, 1, 5) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, waits_file, ends);
    usleep(1000);
    pthread_join(thread, NULL);
    /* a blocking read waits, and does not stop the other threads */
    struct later later = {eventfd(0, 0), 0};
    uint64_t value;
    pthread_create(&thread, NULL, writes_later, &later);
    TAKES(10, CHECK(read(later.fd, &value, 8) == 8));
    pthread_join(thread, NULL);
}

static uint32_t word;
static void *wakes(void *value) {
    usleep(10000);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return value;
}

static void futexes(void) {
    struct timespec t = span(5 * MS);
    TAKES(5, CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0) == -1 && errno == ETIMEDOUT));
    t = in(CLOCK_MONOTONIC, 5 * MS);
    TAKES(5, CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, ~0u) == -1 && errno == ETIMEDOUT));
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 7, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0) == 0);
    pthread_t thread;
    pthread_create(&thread, NULL, wakes, NULL);
    TAKES(10, while (!__atomic_load_n(&word, __ATOMIC_SEQ_CST))
                  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0));
    pthread_join(thread, NULL);
}

static void signals_(void) {
    sigset_t set;
    siginfo_t info;
    int number = 0;
    sigemptyset(&set), sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    struct timespec t = span(5 * MS);
    TAKES(5, CHECK(sigtimedwait(&set, &info, &t) == -1 && errno == EAGAIN));
    raise(SIGUSR1);
    CHECK(!sigwait(&set, &number) && number == SIGUSR1);
    raise(SIGUSR1);
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1);
}

static void numbers(void) {
    unsigned char a[16] = {0}, b[16] = {0};
    CHECK(getrandom(a, sizeof a, 0) == 16 && !getentropy(b, sizeof b) && memcmp(a, b, 16));
    CHECK(syscall(SYS_getrandom, b, sizeof b, 0) == 16);
    for (int k = 0; k < 16; k++) printf("%02x", a[k]);
    printf("\n");
}

int main(int count, char **given) {
    static const struct {
        const char *name;
        void (*function)(void);
    } subjects[] = {
        {"clocks", clocks}, {"sleeps", sleeps}, {"conditions", conditions}, {"mutexes", mutexes},
        {"fairness", fairness}, {"rwlocks", rwlocks}, {"semaphores", semaphores}, {"barriers", barriers},
        {"ends", ends}, {"onces", onces}, {"c11", c11}, {"timers", timers}, {"files", files},
        {"futexes", futexes}, {"signals", signals_}, {"numbers", numbers},
    };
    virtual = getenv("RTSIM_VIRTUAL_TIME") != NULL;
    for (size_t k = 0; count > 1 && k < sizeof subjects / sizeof *subjects; k++)
        if (!strcmp(subjects[k].name, given[1])) {
            subjects[k].function();
            return failures != 0;
        }
    for (size_t k = 0; k < sizeof subjects / sizeof *subjects; k++) printf("%s\n", subjects[k].name);
    return 2;
}
