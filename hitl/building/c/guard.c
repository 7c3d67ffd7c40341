/* Linked into the library of the fast path.  A controller that calls exit() there would end the whole
 * process, with status 0 as if all were well.  Here the call leaves the controller only, and whoever
 * called it is told the status.  A controller may define these functions itself: then its own count. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "rtsim_unit.h"

enum { EXITED = 0x40000000 }; /* hitl/worker/refusal.py knows it too */

static jmp_buf way_out;
static int code;
static __thread int inside;

static __attribute__((noreturn)) void leave(int status)
{
    if (!inside) abort(); /* from a thread of the controller's own: there is nobody to tell */
    inside = 0;
    code = status & 0xff;
    longjmp(way_out, 1);
}

#ifdef __APPLE__ /* a library's own names come first there, unless they are weak */
#define LEAVES __attribute__((noreturn))
#else
#define LEAVES __attribute__((noreturn, weak))
#endif
LEAVES void exit(int status);
LEAVES void _exit(int status);
LEAVES void _Exit(int status);
LEAVES void quick_exit(int status);
void exit(int status) { leave(status); }
void _exit(int status) { leave(status); }
void _Exit(int status) { leave(status); }
void quick_exit(int status) { leave(status); }

int rtsim_guarded_initialize(const double *p)
{
    if (setjmp(way_out)) return EXITED + code;
    inside = 1;
    const int status = rtsim_initialize(p);
    inside = 0;
    return status;
}

int rtsim_guarded_step(const double *u, double *y)
{
    if (setjmp(way_out)) return EXITED + code;
    inside = 1;
    const int status = rtsim_step(u, y);
    inside = 0;
    return status;
}

int rtsim_guarded_terminate(void)
{
    if (setjmp(way_out)) return EXITED + code;
    inside = 1;
    rtsim_terminate();
    inside = 0;
    return rtsim_thrown[0] ? RTSIM_THREW : 0;
}

/* A step that the compiled engine calls by its address, in numba's calling convention: `places` has the
 * address and the length of the vectors u, s, p and y (rtsim/equations/calls.py).
 *
 * p is the log of hitl/controllers/step_log.py: the number of rows, 1 if no more steps may be called, the
 * latest time in s, and the rows.  A row is t, the duration in ns, the status, u and y.  A step that failed,
 * or that was not called, has a NaN as its first output: then the interpreter takes over. */
enum { LOG_HEAD = 3, ROW_HEAD = 3 };

int rtsim_step_by_address(void *result, void *error, double t, const long long *places)
{
    (void)result, (void)error;
    const double *u = (const double *)places[0];
    double *log = (double *)places[4], *y = (double *)places[6];
    const size_t m = rtsim_inputs, n = rtsim_outputs, width = ROW_HEAD + m + n;
    if (n == 0 || (size_t)places[7] != n) abort(); /* a failure could not be reported */
    const size_t rows = (size_t)log[0], next = LOG_HEAD + rows * width;
    if ((size_t)places[1] != m || log[1] != 0 || !(t <= log[2]) ||
        next + width > (size_t)places[5]) {
        y[0] = __builtin_nan("");
        return 0;
    }
    double *row = log + next;
    struct timespec began, ended;
    memcpy(row + ROW_HEAD, u, 8 * m);
    rtsim_time_ns = (long long)__builtin_rint(t * 1e9);
    clock_gettime(CLOCK_MONOTONIC, &began);
    const int status = rtsim_guarded_step(u, y);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    row[0] = t;
    row[1] = 1e9 * (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec);
    row[2] = (double)status;
    memcpy(row + ROW_HEAD + m, y, 8 * n);
    log[0] = (double)(rows + 1);
    if (status) y[0] = __builtin_nan("");
    return 0;
}
