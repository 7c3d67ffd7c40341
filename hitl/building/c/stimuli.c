/* Runs input sequences through a controller with probes; each sequence in a process of its own, which
 * begins with the memory that the program has at its start.  hitl/stimuli/running.py is the other end.
 *
 * On standard input: the parameters (doubles), then any number of batches: a count (uint32), and for each
 * sequence its steps (uint32) and its inputs (doubles, row by row).  On standard output: the greeting, and
 * for each sequence a report: status, steps done, how near a tie a comparison came, and for each goal three
 * doubles: the least distance (0: reached), and both sides of the comparison there.  The goals are all
 * branches, and then all branches once more: there, to take the branch with little to spare.
 * Whatever the controller prints is dropped. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rtsim_probes.h"
#include "rtsim_unit.h"

extern const unsigned rtsim_branches; /* in the generated table */
extern const long long rtsim_period_ns;

enum {
    OK = 0, REFUSED = 1, INEXACT = 2, NOT_FINITE = 3, NO_START = 4, THREW = 5, SIGNALLED = 1000, EXITED = 2000,
    UNFINISHED = -1, CPU_S = 2, WALL_S = 30, MOST_STEPS = 1000000, MOST_SEQUENCES = 100000,
};
enum { LESS, AT_MOST, GREATER, AT_LEAST, EQUAL, DIFFERENT };

typedef struct {
    double distance, left, right;
} probe;

typedef struct {
    int32_t status, steps;
    double tie; /* least relative difference of two sides that were not equal */
    probe probes[];
} report;

unsigned rtsim_site;
static report *shared;
static size_t report_size;
static int out = -1, nowhere = -1;

static void nearer(unsigned id, double distance, double a, double b)
{
    probe *p = &shared->probes[id];
    if (!(distance < p->distance)) return;
    p->distance = distance;
    p->left = a;
    p->right = b;
}

static double positive(double x)
{
    return x > 0.0 ? x : 0x1p-1074;
}

/* One goal of an edge is reached where both sides differ by little: by 5 %; for whole numbers also by 1; if
 * one side is 0, by 0.1. */
static void on_the_edge(unsigned id, double gap, double a, double b, int whole)
{
    const double larger = fmax(fabs(a), fabs(b));
    const double little = whole ? fmax(1.0, 0.05 * larger) : a == 0.0 || b == 0.0 ? 0.1 : 0.05 * larger;
    nearer(rtsim_branches + id, gap > little ? positive(gap / little - 1.0) : 0.0, a, b);
}

static void both(unsigned id, int outcome, double to_true, double to_false, double a, double b)
{
    nearer(id, outcome ? 0.0 : positive(to_true), a, b);
    nearer(id + 1u, outcome ? positive(to_false) : 0.0, a, b);
}

int rtsim_probe(unsigned id, int outcome)
{
    both(id, outcome, 1.0, 1.0, outcome, 0.0);
    return outcome;
}

/* Return how far both sides are apart; a NaN is as far as can be. */
static double gap_of(double a, double b)
{
    const double gap = fabs(a - b), larger = fmax(fabs(a), fabs(b));
    if (!(gap >= 0.0)) return 0x1p1000;
    if (gap > 0.0 && larger > 0.0 && gap / larger < shared->tie) shared->tie = gap / larger;
    return gap;
}

int rtsim_compare(unsigned id, int comparison, int outcome, double a, double b, int whole)
{
    const double gap = gap_of(a, b);
    if (comparison == DIFFERENT) both(id, outcome, 1.0, gap, a, b);
    else if (comparison == EQUAL) both(id, outcome, gap, 1.0, a, b);
    else both(id, outcome, gap, gap, a, b);
    on_the_edge(outcome ? id : id + 1u, gap, a, b, whole);
    return outcome;
}

void rtsim_choice(unsigned id, int first, double a, double b, int whole)
{
    const double gap = gap_of(a, b);
    if (a < b || a > b) {
        both(id, first, gap, gap, a, b);
        on_the_edge(first ? id : id + 1u, gap, a, b, whole);
    } else {
        nearer(id, positive(gap), a, b);
        nearer(id + 1u, positive(gap), a, b);
    }
}

void rtsim_case(unsigned id, int taken, double distance)
{
    nearer(id, taken ? 0.0 : positive(fabs(distance)), distance, 0.0);
}

void rtsim_divisor(unsigned id, int known, double divisor)
{
    if (known) nearer(id, fabs(divisor), divisor, 0.0);
}

void rtsim_below(unsigned id, double value, double count)
{
    if (count <= 0.0) return;
    const int low = value + 1.0 < count - value;
    const double left = low ? value + 1.0 : count - value;
    nearer(id, left > 0.0 ? left : 0.0, value, low ? -1.0 : count);
}

/* A double has 53 bits, so that a 64-bit sum counts only beyond the double next to its limit. */
void rtsim_sum(unsigned id, int operation, int bits, double a, double b)
{
    if (bits == 0) return;
    const double limit = bits == 63 ? 0x1.0000000000001p63 : ldexp(1.0, bits);
    if (operation == 3) { /* only the least number, divided by -1 */
        nearer(id, (a + limit) + fabs(b + 1.0), a, -limit);
        return;
    }
    const double x = operation == 0 ? a + b : operation == 1 ? a - b : a * b;
    const double left = x < 0.0 ? x + limit + 1.0 : limit - x;
    nearer(id, left > 0.0 ? left : 0.0, x, x < 0.0 ? -limit : limit);
}

static void run(const double *p, const double *u, uint32_t steps)
{
    const struct rlimit cpu = {CPU_S, CPU_S + 1};
    double *y = calloc(rtsim_outputs + 1u, sizeof *y);
    setrlimit(RLIMIT_CPU, &cpu);
    alarm(WALL_S);
    if (y == NULL) return;
    if (rtsim_initialize(p)) {
        shared->status = NO_START;
        return;
    }
    for (uint32_t k = 0; k < steps; k++) {
        rtsim_time_ns = (long long)k * rtsim_period_ns;
        const int status = rtsim_step(u + (size_t)k * rtsim_inputs, y);
        if (rtsim_thrown[0]) {
            shared->status = THREW;
            return;
        }
        if (status) {
            shared->status = status > 0 ? REFUSED : INEXACT;
            return;
        }
        for (unsigned j = 0; j < rtsim_outputs; j++) {
            if (!isfinite(y[j])) {
                shared->status = NOT_FINITE;
                return;
            }
        }
        shared->steps = (int32_t)(k + 1);
    }
    rtsim_terminate();
    shared->status = OK;
}

static void forked(const double *p, const double *u, uint32_t steps)
{
    int ended = 0;
    shared->status = UNFINISHED;
    shared->steps = 0;
    shared->tie = INFINITY;
    for (unsigned i = 0; i < 2u * rtsim_branches; i++) shared->probes[i] = (probe){INFINITY, 0.0, 0.0};
    const pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(3);
    }
    if (child == 0) {
        close(out);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) dup2(nowhere, fd);
        run(p, u, steps);
        _exit(0);
    }
    if (waitpid(child, &ended, 0) < 0) {
        perror("waitpid");
        exit(3);
    }
    if (WIFSIGNALED(ended)) shared->status = SIGNALLED + WTERMSIG(ended);
    else if (shared->status == UNFINISHED) shared->status = EXITED + WEXITSTATUS(ended);
}

static int get(void *into, size_t size)
{
    return fread(into, 1, size, stdin) == size;
}

static void put(const void *from, size_t size)
{
    for (size_t done = 0; done < size;) {
        const ssize_t n = write(out, (const char *)from + done, size - done);
        if (n <= 0) exit(4);
        done += (size_t)n;
    }
}

static void *room(size_t size)
{
    void *found = malloc(size ? size : 1);
    if (found == NULL) {
        fputs("no memory\n", stderr);
        exit(3);
    }
    return found;
}

static int batch(const double *p)
{
    uint32_t count = 0;
    if (!get(&count, sizeof count)) return 0;
    if (count > MOST_SEQUENCES) exit(5);
    uint32_t *steps = room(count * sizeof *steps);
    double **u = room(count * sizeof *u);
    for (uint32_t i = 0; i < count; i++) {
        if (!get(&steps[i], sizeof steps[i]) || steps[i] > MOST_STEPS) exit(5);
        const size_t size = (size_t)steps[i] * rtsim_inputs * sizeof **u;
        u[i] = room(size);
        if (!get(u[i], size)) exit(5);
    }
    char *all = room(count * report_size);
    for (uint32_t i = 0; i < count; i++) {
        forked(p, u[i], steps[i]);
        memcpy(all + i * report_size, shared, report_size);
        free(u[i]);
    }
    put(all, count * report_size);
    free(all);
    free(u);
    free(steps);
    return 1;
}

int main(void)
{
    const uint32_t greeting[4] = {0x52545354u, rtsim_branches, rtsim_inputs, rtsim_parameters};
    nowhere = open("/dev/null", O_RDWR);
    out = dup(STDOUT_FILENO);
    if (out < 0 || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0) return 3;
    report_size = sizeof(report) + 2u * rtsim_branches * sizeof(probe);
    shared = mmap(NULL, report_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double *p = room(rtsim_parameters * sizeof *p);
    if (shared == MAP_FAILED || !get(p, rtsim_parameters * sizeof *p)) return 3;
    put(greeting, sizeof greeting);
    while (batch(p)) {
    }
    return 0;
}
