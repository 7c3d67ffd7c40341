/* Start a program in virtual time:  launch LIBRARY OPTIONS PROGRAM [ARGUMENT ...]
 *
 * The addresses of the program are the same in each run, and the program ends with the simulator.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **given) {
    char options[4096];
    if (count < 4) return 2;
    snprintf(options, sizeof options, "pid=%ld,%s", (long)getpid(), given[2]);
    setenv("RTSIM_VIRTUAL_TIME", options, 1);
    setenv("LD_PRELOAD", given[1], 1);
    setenv("LD_BIND_NOW", "1", 1);
    personality(ADDR_NO_RANDOMIZE); /* where it is not allowed, addresses differ between runs */
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    execv(given[3], given + 3);
    fprintf(stderr, "cannot start %s: %s\n", given[3], strerror(errno));
    return 127;
}
