/* Runs the recorded steps of one controller, for a debugger.
 *
 * The arguments are environment variables, because some clients of gdb set the arguments themselves:
 * RTSIM_DEBUG_LIBRARY   the controller
 * RTSIM_DEBUG_STEPS     the file of steps
 * RTSIM_DEBUG_CHECK     if set, the runner runs all steps, and writes their answers into the file
 *
 * Otherwise the runner calls rtsim_at_step before the first step, where the debugger sets the next target.
 * hitl/debugging/recorded.py describes the file.  hitl/debugging/in_gdb.py sets the fields of rtsim_runner
 * and lets the process continue: with `jump`, the runner restores the memory of an earlier step and repeats
 * the steps from there.  A saved memory is a copy of all writable private memory of the process except the
 * stack.  What the runner itself changes is therefore in shared memory, which is neither saved nor restored.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 64, REGIONS = 256, MAPS_BYTES = 1 << 20 };
static const size_t ARENA_BYTES = (size_t)256 << 20;
static const int64_t MAGIC = 0x4755424544545352; /* RSTDEBUG */

struct head {
    int64_t magic, steps, inputs, outputs, parameters;
    int64_t done; /* number of steps that the check has finished */
};

struct region {
    char *at, *copy;
    size_t size;
};

struct memory {
    int64_t step; /* the step before which it was saved; -1: none */
    void *top;
    int count;
    struct region regions[REGIONS];
};

struct runner {
    int64_t step;      /* the step that runs next, or now */
    int64_t target;    /* the step before which the runner calls rtsim_at_step */
    int64_t jump;      /* 1: restore the memory of an earlier step first */
    int64_t repeats;   /* 1: the steps since the last restoration ran without a stop */
    int64_t differs;   /* the first step that gave another answer than in the check; -1: none */
    int64_t lost;      /* 1: no memory can be restored; the debugger starts the process again */
    int64_t status;    /* of the latest step; 0 if all values fit their types */
    double *answer;    /* of the latest step */
    int64_t every;     /* steps from one saved memory to the next */
    size_t slot_bytes;
    int64_t stack;     /* an address of the stack below the frame of run() */
    int slots, silent, terminal, errors, nowhere;
    char *arena, *maps;
    struct memory memory[SLOTS];
};

/* These are set once. */
struct runner *rtsim_runner;
static struct head *head;
static const double *parameters, *inputs;
static const int64_t *times;
static double *answers;
static int64_t *statuses;
static long long *time_ns;
static int (*controller_initialize)(const double *);
static int (*controller_step)(const double *, double *);
static sigjmp_buf again;
static char own[512];

/* The debugger stops in these two functions, and lets the process continue in the third. */
void __attribute__((noinline)) rtsim_at_step(void) { __asm__ volatile("" ::: "memory"); }
void __attribute__((noinline)) rtsim_after_step(void) { __asm__ volatile("" ::: "memory"); }
void __attribute__((noinline)) rtsim_leave_step(void) { siglongjmp(again, 1); }

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

/* The next writable private mapping in the text *line that belongs to the controller. */
static int next_region(char **line, struct region *out)
{
    while (**line) {
        char *text = *line, *end = strchr(text, '\n');
        if (end == NULL) return 0;
        *end = 0;
        *line = end + 1;
        char *rest;
        const uintptr_t from = strtoull(text, &rest, 16), to = strtoull(rest + 1, &rest, 16);
        if (strncmp(rest, " rw", 3) != 0 || rest[4] != 'p') continue;
        if (strstr(rest, "[stack") || strstr(rest, "[v")) continue;
        const char *path = strchr(rest, '/');
        if (path != NULL && strcmp(path, own) == 0) continue;
        *out = (struct region){(char *)from, NULL, to - from};
        return 1;
    }
    return 0;
}

static char *read_maps(struct runner *r)
{
    const int fd = open("/proc/self/maps", O_RDONLY);
    size_t size = 0;
    if (fd < 0) return NULL;
    for (;;) {
        const ssize_t n = read(fd, r->maps + size, MAPS_BYTES - 1 - size);
        if (n <= 0) break;
        size += (size_t)n;
    }
    close(fd);
    r->maps[size] = 0;
    return size + 1 < MAPS_BYTES ? r->maps : NULL;
}

static void measure(struct runner *r)
{
    struct region one;
    size_t size = 0;
    char *line = read_maps(r);
    while (line != NULL && next_region(&line, &one)) size += one.size;
    r->slot_bytes = 2 * size > ARENA_BYTES / SLOTS ? 2 * size : ARENA_BYTES / SLOTS; /* it may grow */
    const size_t slots = size == 0 ? 0 : ARENA_BYTES / r->slot_bytes;
    r->slots = slots > SLOTS ? SLOTS : (int)slots;
    r->every = r->slots == 0 ? head->steps + 1 : head->steps / r->slots + 1;
}

static void save(struct runner *r)
{
    if (r->step % r->every != 0 || r->step / r->every >= r->slots) return;
    struct memory *m = &r->memory[r->step / r->every];
    char *copy = r->arena + (size_t)(r->step / r->every) * r->slot_bytes, *end = copy + r->slot_bytes;
    char *line = m->step >= 0 ? NULL : read_maps(r);
    if (line == NULL) return;
    m->top = sbrk(0);
    for (m->count = 0; m->count < REGIONS && next_region(&line, &m->regions[m->count]); m->count++) {
        struct region *one = &m->regions[m->count];
        if (one->size > (size_t)(end - copy)) return;
        one->copy = copy;
        copy += one->size;
    }
    if (m->count == REGIONS) return;
    for (int k = 0; k < m->count; k++) memcpy(m->regions[k].copy, m->regions[k].at, m->regions[k].size);
    m->step = r->step;
}

/* 1 if the memory of the latest saved step up to the target is there again. */
static int restore(struct runner *r)
{
    struct memory *m = NULL;
    for (int k = 0; k < r->slots; k++) {
        if (r->memory[k].step >= 0 && r->memory[k].step <= r->target) m = &r->memory[k];
    }
    if (m == NULL) return 0;
    for (int k = 0; k < m->count; k++) {
        struct region *one = &m->regions[k], now;
        int there = 0;
        char *line = read_maps(r);
        while (line != NULL && !there && next_region(&line, &now))
            there = now.at <= one->at && one->at + one->size <= now.at + now.size;
        if (!there) return 0; /* the controller has unmapped it since */
    }
    for (int k = 0; k < m->count; k++) memcpy(m->regions[k].at, m->regions[k].copy, m->regions[k].size);
    if (sbrk(0) != m->top && brk(m->top) != 0) return 0;
    r->step = m->step;
    return 1;
}

/* What the controller prints in repeated steps is not shown again. */
static void silence(struct runner *r, int silent)
{
    if (r->silent == silent) return;
    fflush(NULL);
    dup2(silent ? r->nowhere : r->terminal, STDOUT_FILENO);
    dup2(silent ? r->nowhere : r->errors, STDERR_FILENO);
    r->silent = silent;
}

static void compare(struct runner *r)
{
    const size_t n = (size_t)head->outputs, k = (size_t)r->step;
    if (r->step >= head->done || !r->repeats || r->differs >= 0) return;
    if (r->status != statuses[k] || memcmp(r->answer, answers + k * n, 8 * n) != 0) r->differs = r->step;
}

static void run(void)
{
    rtsim_runner->stack = (int64_t)(intptr_t)__builtin_frame_address(0) - 4096;
    sigsetjmp(again, 1);
    for (struct runner *r = rtsim_runner; r->step < head->steps || r->jump;) {
        if (r->jump) {
            r->jump = 0;
            r->repeats = 1;
            if (!restore(r)) r->lost = 1;
        }
        if (r->step == r->target || r->lost) {
            silence(r, 0);
            r->repeats = 0;
            rtsim_at_step();
            if (r->jump) continue;
        }
        if (r->repeats) {
            silence(r, 1);
            save(r);
        }
        *time_ns = times[r->step];
        r->status = controller_step(inputs + (size_t)(r->step * head->inputs), r->answer);
        compare(r);
        rtsim_after_step();
        r->step++;
    }
    silence(rtsim_runner, 0);
}

static void check(void)
{
    const size_t n = (size_t)head->outputs, m = (size_t)head->inputs;
    dup2(rtsim_runner->nowhere, STDOUT_FILENO);
    for (int64_t k = 0; k < head->steps; k++) {
        *time_ns = times[k];
        statuses[k] = controller_step(inputs + (size_t)k * m, answers + (size_t)k * n);
        head->done = k + 1;
    }
}

static int opened(const char *path, int writes)
{
    struct stat about;
    const int fd = open(path, writes ? O_RDWR : O_RDONLY);
    if (fd < 0 || fstat(fd, &about) != 0 || (size_t)about.st_size < sizeof *head) return 0;
    char *file = mmap(NULL, (size_t)about.st_size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    close(fd);
    if (file == MAP_FAILED) return 0;
    head = (struct head *)(void *)file;
    const size_t k = (size_t)head->steps, words = (size_t)head->parameters +
        k * (size_t)(2 + head->inputs + head->outputs);
    if (head->magic != MAGIC || (size_t)about.st_size != sizeof *head + 8 * words) return 0;
    parameters = (const double *)(head + 1);
    times = (const int64_t *)(parameters + head->parameters);
    inputs = (const double *)(times + k);
    answers = (double *)(inputs + k * (size_t)head->inputs);
    statuses = (int64_t *)(answers + k * (size_t)head->outputs);
    return 1;
}

static int loaded(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == NULL) return !fail(path, dlerror());
    void *initialize = dlsym(library, "rtsim_guarded_initialize"), *step = dlsym(library, "rtsim_guarded_step");
    const unsigned *sizes[] = {dlsym(library, "rtsim_inputs"), dlsym(library, "rtsim_outputs"),
                               dlsym(library, "rtsim_parameters")};
    time_ns = dlsym(library, "rtsim_time_ns");
    memcpy(&controller_initialize, &initialize, sizeof initialize);
    memcpy(&controller_step, &step, sizeof step);
    if (!initialize || !step || !time_ns || !sizes[0] || !sizes[1] || !sizes[2])
        return !fail(path, "not a controller");
    if (*sizes[0] != head->inputs || *sizes[1] != head->outputs || *sizes[2] != head->parameters)
        return !fail(path, "its signals are not those of the recording");
    return 1;
}

int main(void)
{
    const char *library = getenv("RTSIM_DEBUG_LIBRARY"), *steps = getenv("RTSIM_DEBUG_STEPS");
    const int checks = getenv("RTSIM_DEBUG_CHECK") != NULL;
    if (!library || !steps) return fail("debug", "RTSIM_DEBUG_LIBRARY and RTSIM_DEBUG_STEPS are not set");
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* all memory of malloc is in one mapping, which stays */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    if (!opened(steps, checks)) return fail(steps, "not a file of steps of this version");
    if (!loaded(library)) return 1;
    const size_t state = sizeof(struct runner) + MAPS_BYTES + 8 * (size_t)(head->outputs + 1);
    char *shared = mmap(NULL, state + ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (shared == MAP_FAILED || length < 0) return fail("debug", "no memory");
    struct runner *r = rtsim_runner = (struct runner *)(void *)shared;
    r->answer = (double *)(void *)(shared + sizeof *r);
    r->maps = (char *)(r->answer + head->outputs + 1);
    r->arena = r->maps + MAPS_BYTES;
    r->terminal = dup(STDOUT_FILENO);
    r->errors = dup(STDERR_FILENO);
    r->nowhere = open("/dev/null", O_WRONLY);
    r->differs = -1;
    for (int k = 0; k < SLOTS; k++) r->memory[k].step = -1;
    const int status = controller_initialize(parameters);
    if (status) {
        fprintf(stderr, "initialize gave the status %d\n", status);
        return 1;
    }
    if (checks) {
        check();
        return 0;
    }
    measure(r);
    save(r);
    run();
    return 0;
}
