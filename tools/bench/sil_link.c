/* A bare ping-pong of two processes over the shared memory of a worker's link, with the same waits.
 *
 * usage: sil_link COUNT PERIOD_NS SPIN_NS REQUEST_BYTES ANSWER_BYTES
 * Writes the duration of each exchange as int64 ns.  An exchange begins each period: the program sleeps, and
 * spins for the last SPIN_NS. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "rtsim_link.h"

enum { MOST = 4096 };
static char buffer[MOST];

static int64_t later(void) { return link_now() + 1000000000; }

static int echo(int fd, size_t answer)
{
    struct link_end end;
    if (!link_open(&end, fd, LINK_WORKER, 0)) return 1;
    for (;;) {
        if (link_receive(&end, buffer, MOST, later()) >= 0) link_send(&end, buffer, answer);
        else if (link_closed(&end)) return 0;
    }
}

static void wait_until(int64_t due, int64_t spin)
{
    const int64_t until = due - spin;
    const struct timespec time = {until / 1000000000, until % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    while (link_now() < due) link_relax();
}

int main(int argc, char **argv)
{
    if (argc != 6) return 2;
    const long count = atol(argv[1]);
    const int64_t period = atol(argv[2]), spin = atol(argv[3]);
    const size_t request = (size_t)atol(argv[4]), answer = (size_t)atol(argv[5]);
    prctl(PR_SET_TIMERSLACK, 1);
    const int fd = memfd_create("rtsim-bench", 0);
    int64_t *took = malloc((size_t)count * sizeof *took);
    struct link_end end;
    if (fd < 0 || took == NULL || request > MOST || answer > MOST ||
        ftruncate(fd, (off_t)link_bytes(MOST)) != 0 || !link_open(&end, fd, LINK_RUNTIME, MOST))
        return 1;
    const pid_t child = fork();
    if (child == 0) _exit(echo(fd, answer));
    const int64_t start = link_now();
    for (long k = 0; k < count; k++) {
        wait_until(start + (k + 1) * period, spin);
        const int64_t began = link_now();
        link_send(&end, buffer, request);
        while (link_receive(&end, buffer, MOST, later()) < 0) { }
        took[k] = link_now() - began;
    }
    link_close(&end);
    waitpid(child, NULL, 0);
    fwrite(took, sizeof *took, (size_t)count, stdout);
    return 0;
}
