/* Threads, and all by which they wait for each other. */
#include "virtual_time.h"

/* -- threads */

static void forget(struct thread *t) {
    for (struct thread *one = all; one; one = one->after)
        if (one->after == t) one->after = t->after;
    if (t == all) all = t->after;
}

void thread_ends(void *value) {
    struct thread *me = value;
    if (state != 2) return;
    if (++me->endings < PTHREAD_DESTRUCTOR_ITERATIONS - 1) { /* run after the destructors of other keys */
        pthread_setspecific(at_end, me);
        return;
    }
    if (threads == 1) return; /* the last thread: the C library ends the program in it */
    me->ended = 1;
    me->waits = NOTHING;
    threads--;
    wake(THREAD_END, me, INT_MAX);
    if (me->detached) forget(me);
    self = NULL;
    hand_over(choose());
}

static void *thread_begins(void *value) {
    struct thread *me = value;
    self = me;
    wait_turn(me);
    pthread_setspecific(at_end, me);
    return me->function(me->argument);
}

EXPORT int pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*function)(void *),
                          void *argument) {
    if (!active()) return REAL(pthread_create)(id, attributes, function, argument);
    struct thread *t = calloc(1, sizeof *t);
    if (!t) return EAGAIN;
    t->function = function, t->argument = argument, t->wake_ns = FOREVER;
    int way;
    t->detached = attributes && !pthread_attr_getdetachstate(attributes, &way) && way == PTHREAD_CREATE_DETACHED;
    int result = REAL(pthread_create)(&t->id, attributes, thread_begins, t);
    if (result) {
        free(t);
        return result;
    }
    *id = t->id;
    struct thread *last = all;
    while (last->after) last = last->after;
    t->number = last->number + 1;
    last->after = t;
    threads++;
    enqueue(t);
    return 0;
}

static struct thread *thread_of(pthread_t id) {
    struct thread *found = NULL; /* an identifier can be used again after its thread was joined */
    for (struct thread *t = all; t; t = t->after)
        if (pthread_equal(t->id, id)) found = t;
    return found;
}

static int join(pthread_t id, void **result, int64_t wake_ns) {
    struct thread *t = thread_of(id);
    if (t == self) return EDEADLK;
    while (t && !t->ended) {
        if (now_ns >= wake_ns) return ETIMEDOUT;
        block(THREAD_END, t, wake_ns);
        pthread_testcancel();
    }
    int failed = REAL(pthread_join)(id, result);
    if (!failed && t && t != &main_thread) {
        forget(t);
        free(t);
    }
    return failed;
}

EXPORT int pthread_detach(pthread_t id) {
    struct thread *t = active() ? thread_of(id) : NULL;
    int failed = REAL(pthread_detach)(id);
    if (t && !failed) {
        t->detached = 1;
        if (t->ended) forget(t);
    }
    return failed;
}

EXPORT int pthread_join(pthread_t id, void **result) {
    return active() ? join(id, result, FOREVER) : REAL(pthread_join)(id, result);
}

EXPORT int pthread_tryjoin_np(pthread_t id, void **result) {
    if (active()) look();
    struct thread *t = active() ? thread_of(id) : NULL;
    return t && !t->ended ? EBUSY : pthread_join(id, result);
}

EXPORT int pthread_timedjoin_np(pthread_t id, void **result, const struct timespec *t) {
    return active() ? join(id, result, from_clock(t)) : REAL(pthread_join)(id, result);
}

EXPORT int pthread_clockjoin_np(pthread_t id, void **result, clockid_t clock, const struct timespec *t) {
    (void)clock;
    return pthread_timedjoin_np(id, result, t);
}

EXPORT int pthread_cancel(pthread_t id) {
    int result = REAL(pthread_cancel)(id);
    struct thread *t = active() && !result ? thread_of(id) : NULL;
    if (t && t->waits) wake_thread(t, 1);
    return result;
}

struct started {
    thrd_start_t function;
    void *argument;
};

static void *start_of_c11(void *value) {
    struct started of = *(struct started *)value;
    free(value);
    return (void *)(intptr_t)of.function(of.argument);
}

EXPORT int thrd_create(thrd_t *id, thrd_start_t function, void *argument) {
    struct started *of = malloc(sizeof *of);
    if (!of) return thrd_nomem;
    of->function = function, of->argument = argument;
    int result = pthread_create(id, NULL, start_of_c11, of);
    if (result) free(of);
    return result ? thrd_error : thrd_success;
}

EXPORT int thrd_join(thrd_t id, int *result) {
    void *found;
    if (pthread_join(id, &found)) return thrd_error;
    if (result) *result = (int)(intptr_t)found;
    return thrd_success;
}

/* -- mutexes and other locks: the C library keeps their state, and never waits */

static int lock_until(pthread_mutex_t *mutex, int64_t wake_ns) {
    int result;
    while ((result = REAL(pthread_mutex_trylock)(mutex)) == EBUSY) {
        int kind = mutex->__data.__kind & 3;
        if (kind == PTHREAD_MUTEX_ERRORCHECK && mutex->__data.__owner == SYS(SYS_gettid, 0, 0, 0, 0, 0, 0))
            return EDEADLK;
        if (now_ns >= wake_ns) return ETIMEDOUT;
        block(MUTEX, mutex, wake_ns);
    }
    return result;
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex) {
    return active() ? lock_until(mutex, FOREVER) : REAL(pthread_mutex_lock)(mutex);
}

EXPORT int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    int result = REAL(pthread_mutex_trylock)(mutex);
    if (result == EBUSY && active()) look();
    return result;
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict t) {
    if (!active()) return REAL(pthread_mutex_lock)(mutex);
    return valid(t) ? lock_until(mutex, from_clock(t)) : EINVAL;
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock,
                                   const struct timespec *restrict t) {
    (void)clock;
    return pthread_mutex_timedlock(mutex, t);
}

EXPORT int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    int result = REAL(pthread_mutex_unlock)(mutex);
    if (!result && active() && wake(MUTEX, mutex, 1)) give_way();
    return result;
}

static int condition_until(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t wake_ns) {
    int result = REAL(pthread_mutex_unlock)(mutex);
    if (result) return result;
    wake(MUTEX, mutex, 1); /* and wait at once: no signal may come in between */
    int woken = block(CONDITION, condition, wake_ns);
    result = lock_until(mutex, FOREVER);
    pthread_testcancel();
    return result ? result : woken ? 0 : ETIMEDOUT;
}

EXPORT int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex) {
    return active() ? condition_until(condition, mutex, FOREVER) : REAL(pthread_cond_wait)(condition, mutex);
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict t) {
    if (!active()) return REAL(pthread_cond_timedwait)(condition, mutex, t);
    return valid(t) ? condition_until(condition, mutex, from_clock(t)) : EINVAL;
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                                  clockid_t clock, const struct timespec *restrict t) {
    (void)clock;
    return pthread_cond_timedwait(condition, mutex, t);
}

EXPORT int pthread_cond_signal(pthread_cond_t *condition) {
    if (!active()) return REAL(pthread_cond_signal)(condition);
    wake(CONDITION, condition, 1);
    return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *condition) {
    if (!active()) return REAL(pthread_cond_broadcast)(condition);
    wake(CONDITION, condition, INT_MAX);
    return 0;
}

static int of_c11(int result) {
    if (result == ETIMEDOUT) return thrd_timedout;
    return result == EBUSY ? thrd_busy : result ? thrd_error : thrd_success;
}

EXPORT int mtx_lock(mtx_t *m) { return of_c11(pthread_mutex_lock((pthread_mutex_t *)m)); }
EXPORT int mtx_trylock(mtx_t *m) { return of_c11(pthread_mutex_trylock((pthread_mutex_t *)m)); }
EXPORT int mtx_unlock(mtx_t *m) { return of_c11(pthread_mutex_unlock((pthread_mutex_t *)m)); }
EXPORT int mtx_timedlock(mtx_t *restrict m, const struct timespec *restrict t) {
    return of_c11(pthread_mutex_timedlock((pthread_mutex_t *)m, t));
}
EXPORT int cnd_signal(cnd_t *c) { return of_c11(pthread_cond_signal((pthread_cond_t *)c)); }
EXPORT int cnd_broadcast(cnd_t *c) { return of_c11(pthread_cond_broadcast((pthread_cond_t *)c)); }
EXPORT int cnd_wait(cnd_t *c, mtx_t *m) {
    return of_c11(pthread_cond_wait((pthread_cond_t *)c, (pthread_mutex_t *)m));
}
EXPORT int cnd_timedwait(cnd_t *restrict c, mtx_t *restrict m, const struct timespec *restrict t) {
    return of_c11(pthread_cond_timedwait((pthread_cond_t *)c, (pthread_mutex_t *)m, t));
}

static int try_until(int (*attempt)(void *), enum waiting waits, void *key, int64_t wake_ns) {
    int result;
    while ((result = attempt(key)) == EBUSY) {
        if (now_ns >= wake_ns) return ETIMEDOUT;
        block(waits, key, wake_ns);
        if (waits == SEMAPHORE) pthread_testcancel();
    }
    return result;
}

static int try_read(void *lock) { return REAL(pthread_rwlock_tryrdlock)(lock); }
static int try_write(void *lock) { return REAL(pthread_rwlock_trywrlock)(lock); }
static int try_semaphore(void *semaphore) {
    if (!REAL(sem_trywait)(semaphore)) return 0;
    return errno == EAGAIN ? EBUSY : errno;
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    return active() ? try_until(try_read, RWLOCK, lock, FOREVER) : try_read(lock);
}
EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    return active() ? try_until(try_write, RWLOCK, lock, FOREVER) : try_write(lock);
}
EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict t) {
    return active() ? try_until(try_read, RWLOCK, lock, from_clock(t)) : try_read(lock);
}
EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict t) {
    return active() ? try_until(try_write, RWLOCK, lock, from_clock(t)) : try_write(lock);
}
EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    int result = REAL(pthread_rwlock_unlock)(lock);
    if (!result && active() && wake(RWLOCK, lock, INT_MAX)) give_way();
    return result;
}

EXPORT int pthread_spin_lock(pthread_spinlock_t *lock) {
    int result;
    while ((result = REAL(pthread_spin_trylock)(lock)) == EBUSY)
        if (active()) look();
    return result;
}

static int semaphore_until(sem_t *semaphore, int64_t wake_ns) {
    int result = try_until(try_semaphore, SEMAPHORE, semaphore, wake_ns);
    pthread_testcancel();
    if (!result) return 0;
    errno = result;
    return -1;
}

EXPORT int sem_wait(sem_t *semaphore) {
    if (active()) return semaphore_until(semaphore, FOREVER);
    while (try_semaphore(semaphore)) SYS(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    return 0;
}
EXPORT int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict t) {
    return active() ? semaphore_until(semaphore, from_clock(t)) : sem_wait(semaphore);
}
EXPORT int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict t) {
    (void)clock;
    return sem_timedwait(semaphore, t);
}
EXPORT int sem_trywait(sem_t *semaphore) {
    int result = REAL(sem_trywait)(semaphore), kept = errno;
    if (result && active()) look();
    errno = kept;
    return result;
}
EXPORT int sem_post(sem_t *semaphore) {
    int result = REAL(sem_post)(semaphore);
    if (!result && active() && wake(SEMAPHORE, semaphore, 1)) give_way();
    return result;
}

EXPORT int pthread_barrier_init(pthread_barrier_t *restrict barrier,
                                const pthread_barrierattr_t *restrict attributes, unsigned count) {
    int result = REAL(pthread_barrier_init)(barrier, attributes, count);
    struct barrier *b = !result && active() ? calloc(1, sizeof *b) : NULL;
    if (b) b->key = barrier, b->wanted = count, b->next = barriers, barriers = b;
    return result;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier) {
    for (struct barrier **at = &barriers; *at; at = &(*at)->next) {
        struct barrier *b = *at;
        if (b->key != barrier) continue;
        *at = b->next;
        free(b);
        break;
    }
    return REAL(pthread_barrier_destroy)(barrier);
}

EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier) {
    struct barrier *b = barriers;
    while (b && b->key != barrier) b = b->next;
    if (!active() || !b) return EINVAL;
    if (++b->arrived == b->wanted) {
        b->arrived = 0, b->generation++;
        wake(BARRIER, barrier, INT_MAX);
        return PTHREAD_BARRIER_SERIAL_THREAD;
    }
    for (unsigned generation = b->generation; b->generation == generation;) block(BARRIER, barrier, FOREVER);
    return 0;
}

/* -- what runs once: the C library would wait for the thread that runs it */

enum { NEVER = 0, RUNS = 1, DONE = 2 };

static void once_again(void *once) {
    *(pthread_once_t *)once = NEVER;
    wake(WORD, once, INT_MAX);
}

EXPORT int pthread_once(pthread_once_t *once, void (*function)(void)) {
    if (!active()) return REAL(pthread_once)(once, function);
    while (*once == RUNS) block(WORD, once, FOREVER);
    if (*once == DONE) return 0;
    *once = RUNS;
    pthread_cleanup_push(once_again, once);
    function();
    pthread_cleanup_pop(0);
    *once = DONE;
    wake(WORD, once, INT_MAX);
    return 0;
}

EXPORT void call_once(once_flag *flag, void (*function)(void)) { pthread_once((pthread_once_t *)flag, function); }

/* -- system calls through syscall(): clocks, sleeps, and waiting for a word of memory (futex) */

static int word(uint32_t *at, int operation, uint32_t value, const struct timespec *t, long *result) {
    int command = operation & FUTEX_CMD_MASK;
    int64_t wake_ns = !t ? FOREVER : command == FUTEX_WAIT ? timeout_ns(t) : from_clock(t);
    if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) *result = wake(WORD, at, (int)value);
    else if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) {
        note("not in virtual time: operation %d of the system call futex", command);
        return 0;
    }
    else if (__atomic_load_n(at, __ATOMIC_SEQ_CST) != value) *result = -EAGAIN;
    else *result = block(WORD, at, wake_ns) ? 0 : -ETIMEDOUT;
    return 1;
}

/* Perform a system call in virtual time; return 0 if it is none of those. */
int in_virtual_time(long number, const long *a, long *result) {
    switch (number) {
    case SYS_clock_gettime: *result = clock_gettime((clockid_t)a[0], (struct timespec *)a[1]); break;
    case SYS_gettimeofday: *result = gettimeofday((struct timeval *)a[0], (void *)a[1]); break;
#ifdef SYS_time
    case SYS_time: *result = time((time_t *)a[0]); break;
#endif
    case SYS_nanosleep:
        *result = nanosleep((const struct timespec *)a[0], (struct timespec *)a[1]) ? -errno : 0;
        break;
    case SYS_clock_nanosleep:
        *result = -clock_nanosleep((clockid_t)a[0], (int)a[1], (const struct timespec *)a[2],
                                   (struct timespec *)a[3]);
        break;
    case SYS_futex:
        return word((uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (const struct timespec *)a[3], result);
    case SYS_getrandom: *result = getrandom((void *)a[0], (size_t)a[1], (unsigned)a[2]); break;
    case SYS_sched_yield: *result = sched_yield(); break;
    default: return 0;
    }
    return 1;
}

EXPORT long syscall(long number, ...) {
    long a[6], result;
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(arguments, long);
    va_end(arguments);
    if (!active() || !in_virtual_time(number, a, &result))
        result = clock_call(number) ? own(number, a[0], a[1], a[2], a[3])
                                 : sys(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return with_errno(result);
}
