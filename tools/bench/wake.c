/* The reference for wake lateness: absolute clock_nanosleep, then spin.  Nothing else.
 *
 * usage: wake PERIOD_NS COUNT SPIN_NS FIFO_PRIORITY(0: as it is)
 * Writes COUNT native int64 to stdout: ns between when each wake was due and when it came.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: wake PERIOD_NS COUNT SPIN_NS FIFO_PRIORITY\n");
        return 2;
    }
    const int64_t period = atoll(argv[1]), count = atoll(argv[2]), spin = atoll(argv[3]);
    const struct sched_param priority = {.sched_priority = atoi(argv[4])};
    int64_t *late = calloc((size_t)count, sizeof *late);
    if (late == NULL || prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0) {
        perror("wake");
        return 1;
    }
    if (priority.sched_priority > 0 && sched_setscheduler(0, SCHED_FIFO, &priority) != 0) {
        perror("wake: SCHED_FIFO");
        return 1;
    }
    const int64_t start = now();
    for (int64_t k = 0; k < count; k++) {
        const int64_t due = start + (k + 1) * period, bell = due - spin;
        const struct timespec until = {bell / 1000000000, bell % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
        int64_t t;
        while ((t = now()) < due) {
        }
        late[k] = t - due;
    }
    return fwrite(late, sizeof *late, (size_t)count, stdout) == (size_t)count ? 0 : 1;
}
