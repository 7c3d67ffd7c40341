/* Timers that send signals, and other processes: not in virtual time. */
#include "virtual_time.h"
#include <spawn.h>

#define NAMED(type, name, parameters, arguments, what)        \
    EXPORT type name parameters {                             \
        if (active()) note("not in virtual time: " what);     \
        return REAL(name) arguments;                          \
    }

NAMED(unsigned, alarm, (unsigned s), (s), "alarm()")
NAMED(int, timer_create, (clockid_t c, struct sigevent *restrict e, timer_t *restrict t), (c, e, t), "timer_create()")
#ifdef __GLIBC__
EXPORT int setitimer(__itimer_which_t which, const struct itimerval *restrict value,
                     struct itimerval *restrict old) {
    if (active()) note("not in virtual time: setitimer()");
    return (int)with_errno(SYS(SYS_setitimer, which, value, old, 0, 0, 0));
}
#endif

/* A call that starts a program, which does not inherit the trap of the counter. */
#define STARTS(type, name, parameters, arguments, what)                               \
    EXPORT type name parameters {                                                     \
        if (!active()) return REAL(name) arguments;                                   \
        if (*(what)) note("not in virtual time: a process that %s has started", what); \
        trap_counter(0);                                                              \
        type result = REAL(name) arguments;                                           \
        trap_counter(1);                                                              \
        return result;                                                                \
    }

STARTS(int, system, (const char *c), (c), "system()")
STARTS(FILE *, popen, (const char *c, const char *m), (c, m), "popen()")
STARTS(int, posix_spawn,
       (pid_t *restrict p, const char *restrict f, const posix_spawn_file_actions_t *restrict a,
        const posix_spawnattr_t *restrict t, char *const v[restrict], char *const e[restrict]),
       (p, f, a, t, v, e), "posix_spawn()")
STARTS(int, posix_spawnp,
       (pid_t *restrict p, const char *restrict f, const posix_spawn_file_actions_t *restrict a,
        const posix_spawnattr_t *restrict t, char *const v[restrict], char *const e[restrict]),
       (p, f, a, t, v, e), "posix_spawnp()")
/* The program that takes the place of this one has virtual time, and begins with the same grant. */
STARTS(int, execve, (const char *f, char *const v[], char *const e[]), (f, v, e), "")
STARTS(int, execv, (const char *f, char *const v[]), (f, v), "")
STARTS(int, execvp, (const char *f, char *const v[]), (f, v), "")
STARTS(int, execvpe, (const char *f, char *const v[], char *const e[]), (f, v, e), "")

EXPORT pid_t vfork(void) { return fork(); }
