/* Linked into the library of the fast path.  A controller that calls exit() there would end the whole
 * process, with status 0 as if all were well.  Here the call leaves the controller only, and whoever
 * called it is told the status.  A controller may define these functions itself: then its own count. */
#include <setjmp.h>
#include <stdlib.h>

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
    return 0;
}
