/* A controller in a process of its own: answers the runtime's requests over ZeroMQ or shared memory.
 *
 * usage: worker ENDPOINT LIBZMQ
 * ENDPOINT is one of ZeroMQ, or shm:FD with the inherited file descriptor of a segment (rtsim_link.h).
 * The messages are those of hitl/worker/messages.py; libzmq is loaded at run time, so that none has to be
 * installed for the compiler.  RTSIM_PARENT is the process without which it does not live on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>

#include "rtsim_link.h"
#endif

#include "rtsim_message.h"
#include "rtsim_unit.h"

enum { ZMQ_PAIR = 0, ZMQ_LINGER = 17, ZMQ_MAXMSGSIZE = 22, ZMQ_RCVTIMEO = 27, ZMQ_SNDTIMEO = 28 };
enum { OF_ANOTHER_SIZE = 0x7fff, MOST_BYTES = 1 << 20 };
enum { LOOK_AFTER_PARENT_MS = 500, MOST_PRINTED_BYTES = 8 << 20 };

static struct {
    void *(*ctx_new)(void);
    void *(*socket)(void *, int);
    int (*setsockopt)(void *, int, const void *, size_t);
    int (*connect)(void *, const char *);
    int (*send)(void *, const void *, size_t, int);
    int (*recv)(void *, void *, size_t, int);
    int (*close)(void *);
    int (*ctx_term)(void *);
    int (*error)(void);
} zmq;

static int load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "worker: %s\n", dlerror());
        return 0;
    }
    const struct {
        const char *name;
        void *into;
    } wanted[] = {
        {"zmq_ctx_new", &zmq.ctx_new}, {"zmq_socket", &zmq.socket},
        {"zmq_setsockopt", &zmq.setsockopt}, {"zmq_connect", &zmq.connect},
        {"zmq_send", &zmq.send}, {"zmq_recv", &zmq.recv}, {"zmq_close", &zmq.close},
        {"zmq_ctx_term", &zmq.ctx_term}, {"zmq_errno", &zmq.error},
    };
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        void *symbol = dlsym(library, wanted[k].name);
        if (symbol == NULL) {
            fprintf(stderr, "worker: no %s in %s\n", wanted[k].name, path);
            return 0;
        }
        memcpy(wanted[k].into, &symbol, sizeof symbol);
    }
    return 1;
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static pid_t parent;

/* The parent's death ends the worker, also in the midst of a step.  The signal comes as well when
 * only the thread that started the worker has ended: then the process is still the parent. */
static void orphaned(int signal)
{
    (void)signal;
    if (getppid() != parent) _exit(3);
}

/* What of the controller runs.  It is to return: exit() would end the worker as if all were well. */
static const char *volatile running;

static void left(void)
{
    if (running != NULL) fprintf(stderr, "worker: the C called exit() in its %s\n", running);
}

/* C++ code has thrown what it did not catch.  Its state is not known, so the worker ends here. */
static void end_thrown(void)
{
    if (rtsim_thrown[0] == 0) return;
    fprintf(stderr, "worker: the C++ code threw %s in its %s\n", rtsim_thrown, running);
    fflush(NULL);
    _exit(1);
}

static int set(void *socket, int option, int value)
{
    return zmq.setsockopt(socket, option, &value, sizeof value) == 0;
}

static void *opened(void *context, const char *endpoint)
{
    const int64_t most = MOST_BYTES;
    void *socket = zmq.socket(context, ZMQ_PAIR);
    if (socket == NULL || !set(socket, ZMQ_LINGER, 200) ||
        !set(socket, ZMQ_RCVTIMEO, LOOK_AFTER_PARENT_MS) ||
        !set(socket, ZMQ_SNDTIMEO, LOOK_AFTER_PARENT_MS) ||
        zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most) != 0 ||
        zmq.connect(socket, endpoint) != 0) {
        fprintf(stderr, "worker: cannot connect %s: %s\n", endpoint, strerror(zmq.error()));
        return NULL;
    }
    return socket;
}

static int orphan(void) { return getppid() != parent; }

static int again(void) { return (zmq.error() == EAGAIN || zmq.error() == EINTR) && !orphan(); }

/* What the worker is connected by: a socket, or shared memory if there is none. */
static void *connection;
#ifdef __linux__
static struct link_end shared;

static int64_t soon(void) { return now() + (int64_t)LOOK_AFTER_PARENT_MS * 1000000; }

static int damaged;

static int overwritten(void)
{
    fprintf(stderr, "worker: the memory of the link was overwritten\n");
    damaged = 1;
    return -1;
}

static int receive_shared(void *into, size_t most)
{
    for (;;) {
        const int size = link_receive(&shared, into, most, soon());
        if (size >= 0) return size;
        if (size != LINK_NONE) return overwritten();
        if (orphan() || link_closed(&shared)) return -1;
    }
}

static int send_shared(const void *data, size_t size)
{
    const struct timespec pause = {0, 1000000}; /* the queue is full: the runtime reads slowly */
    for (;;) {
        const int sent = link_send(&shared, data, size);
        if (sent == 1) return 1;
        if (sent != 0) return overwritten() > 0;
        if (orphan() || link_closed(&shared)) return 0;
        nanosleep(&pause, NULL);
    }
}
#else
static int receive_shared(void *into, size_t most) { return (void)into, (void)most, -1; }
static int send_shared(const void *data, size_t size) { return (void)data, (void)size, 0; }
#endif

/* The size of the next message, at most `most` bytes of it in `into`; -1 when the parent is gone. */
static int receive(void *into, size_t most)
{
    if (connection == NULL) return receive_shared(into, most);
    for (;;) {
        const int size = zmq.recv(connection, into, most, 0);
        if (size >= 0 || !again()) return size;
    }
}

static int answer(struct header *head, uint8_t kind, uint32_t count, void *buffer)
{
    head->kind = kind;
    head->count = count;
    memcpy(buffer, head, sizeof *head);
    const size_t size = sizeof *head + 8 * (size_t)count;
    if (connection == NULL) return send_shared(buffer, size);
    for (;;) {
        if (zmq.send(connection, buffer, size, 0) >= 0) return 1;
        if (!again()) return 0;
    }
}

static int serve(void)
{
    const unsigned most = rtsim_inputs > rtsim_parameters ? rtsim_inputs : rtsim_parameters;
    const size_t in_bytes = sizeof(struct header) + 8 * (size_t)most;
    const unsigned said = rtsim_outputs > rtsim_parameters ? rtsim_outputs : rtsim_parameters;
    const size_t out_bytes = sizeof(struct header) + 8 * (size_t)said;
    char *in = aligned_alloc(64, (in_bytes / 64 + 1) * 64);
    char *out = aligned_alloc(64, (out_bytes / 64 + 1) * 64);
    if (in == NULL || out == NULL) return 1;
    const double *values = (const double *)(const void *)(in + sizeof(struct header));
    double *answers = (double *)(void *)(out + sizeof(struct header));

    struct header head = {.magic = "RTSM", .version = VERSION, .schema = rtsim_schema};
    head.began_ns = getpid();
    if (!answer(&head, HELLO, 0, out)) return 1;
    for (int started = 0;;) {
        const int size = receive(in, in_bytes);
        if (size < 0) return 0;
        if ((size_t)size < sizeof head) continue;
        memcpy(&head, in, sizeof head);
        if (memcmp(head.magic, "RTSM", 4) != 0 || head.version != VERSION) continue;
        const unsigned expected = head.kind == STEP ? rtsim_inputs : rtsim_parameters;
        if (head.kind == STOP) {
            running = "terminate";
            if (started) rtsim_terminate();
            end_thrown();
            running = NULL;
            answer(&head, BYE, 0, out);
            return 0;
        }
        if (head.kind != START && (head.kind != STEP || !started)) continue;
        const uint8_t kind = head.kind == STEP ? ANSWER : READY;
        if (head.count != expected || (size_t)size != sizeof head + 8 * (size_t)expected) {
            head.status = OF_ANOTHER_SIZE;
        } else {
            running = kind == ANSWER ? "step" : "initialize";
            if (kind == READY && started) rtsim_terminate(); /* and anew, on the same memory */
            rtsim_time_ns = kind == ANSWER ? head.ns : 0;
            head.began_ns = now();
            head.status = kind == ANSWER ? rtsim_step(values, answers) : rtsim_initialize(values);
            head.took_ns = now() - head.began_ns;
            end_thrown();
            running = NULL;
            started = 1;
        }
        head.schema = rtsim_schema;
        const unsigned count = kind == ANSWER ? rtsim_outputs : rtsim_parameters;
        if (kind == READY) memcpy(answers, rtsim_own, 8 * (size_t)rtsim_parameters);
        if (!answer(&head, kind, head.status == 0 ? count : 0, out)) return 1;
    }
}

int main(int argc, char **argv)
{
    const char *started_by = getenv("RTSIM_PARENT");
    if (argc != 3 || started_by == NULL) {
        fprintf(stderr, "usage: RTSIM_PARENT=PID worker ENDPOINT LIBZMQ\n");
        return 2;
    }
    parent = (pid_t)atol(started_by);
#ifdef __linux__
    signal(SIGHUP, orphaned);
    prctl(PR_SET_PDEATHSIG, SIGHUP);
    prctl(PR_SET_TIMERSLACK, 1);
#endif
    if (getppid() != parent) return 3; /* it was gone before it could be watched */
    const struct rlimit printed = {MOST_PRINTED_BYTES, MOST_PRINTED_BYTES}, no_core = {0, 0};
    setrlimit(RLIMIT_FSIZE, &printed);
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGXFSZ, SIG_IGN); /* what is printed beyond its limit is lost, and ends nothing */
    signal(SIGINT, SIG_IGN);  /* Ctrl-C and SIGTERM end the run, and the run ends the worker */
    signal(SIGTERM, SIG_IGN);
    atexit(left);
    if (strncmp(argv[1], "shm:", 4) == 0) {
#ifdef __linux__
        const int fd = atoi(argv[1] + 4);
        if (!link_open(&shared, fd, LINK_WORKER, 0)) {
            fprintf(stderr, "worker: %s is not a segment of this version\n", argv[1]);
            return 1;
        }
        close(fd);
        const int ended = serve();
        link_close(&shared);
        return damaged ? 1 : ended;
#else
        fprintf(stderr, "worker: this system has no link over shared memory\n");
        return 1;
#endif
    }
    if (!load(argv[2])) return 1;
    void *context = zmq.ctx_new();
    connection = context == NULL ? NULL : opened(context, argv[1]);
    if (connection == NULL) return 1;
    const int status = serve();
    zmq.close(connection);
    zmq.ctx_term(context);
    return status;
}
