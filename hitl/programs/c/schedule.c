/* The state of virtual time, the exchange with the simulator, and the order of the threads. */
#include "virtual_time.h"

int state; /* 0: not started, 1: starting, 2: active, 3: not this process */
int control = -1;
pid_t owner;
int64_t now_ns, limit_ns = -1, look_ns = 1000, next_ns = FOREVER;
unsigned stops;
int written; /* a thread has written to a file, for which another may wait */
uint64_t tickets, randomness = 0x9E3779B97F4A7C15ULL;
int threads;
struct thread *all, *first_in_queue, *last_in_queue;
struct datagram *arrivals, *outgoing, **last_outgoing = &outgoing;
unsigned outgoing_count;
struct timer *timers;
struct line *lines;
struct barrier *barriers;
int ports_in[MOST_PORTS], ports_out[MOST_PORTS], count_in, count_out, ephemeral = 49152;
char notes[MOST_NOTES][160];
int note_count, notes_sent;
__thread struct thread *self;
pthread_key_t at_end;
struct thread main_thread;

/* Whether the calling thread has the turn, so that its calls are in virtual time. */
int active(void) {
    if (state == 0) start();
    return state == 2 && self != NULL;
}

void note(const char *format, ...) {
    char text[sizeof notes[0]];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (int i = 0; i < note_count; i++)
        if (!strcmp(notes[i], text)) return;
    if (note_count < MOST_NOTES) strcpy(notes[note_count++], text);
}

/* -- the exchange with the simulator */

struct __attribute__((packed)) report { /* of the program: it has used its time */
    char magic[4];
    uint32_t datagrams, notes;
    int32_t threads;
    int64_t now_ns;
};

struct __attribute__((packed)) grant { /* of the simulator: more time */
    char magic[4];
    uint32_t datagrams, stops; /* stops: the time ends with the first datagram of the program */
    uint32_t reserved;
    int64_t limit_ns;
};

struct __attribute__((packed)) head { /* of a datagram, in both directions */
    int64_t at_ns;
    uint16_t to, from;
    uint32_t length;
};

void lost(void) {
    static const char text[] = "virtual time: the simulator has ended\n";
    SYS(SYS_write, 2, text, sizeof text - 1, 0, 0, 0);
    SYS(SYS_exit_group, 113, 0, 0, 0, 0, 0);
}

static void put(const void *data, size_t size) {
    for (const char *at = data; size;) {
        long n = SYS(SYS_sendto, control, at, size, MSG_NOSIGNAL, 0, 0);
        if (n == -EINTR) continue;
        if (n <= 0) lost();
        at += n;
        size -= (size_t)n;
    }
}

static void get(void *data, size_t size) {
    for (char *at = data; size;) {
        long n = SYS(SYS_read, control, at, size, 0, 0, 0);
        if (n == -EINTR) continue;
        if (n <= 0) lost();
        at += n;
        size -= (size_t)n;
    }
}

static void arrive(struct datagram *one) {
    struct datagram **at = &arrivals;
    while (*at && (*at)->at_ns <= one->at_ns) at = &(*at)->next;
    one->next = *at;
    *at = one;
}

static void exchange(void) {
    struct report report = {"DONE", outgoing_count, (uint32_t)(note_count - notes_sent), threads, now_ns};
    put(&report, sizeof report);
    while (outgoing) {
        struct datagram *one = outgoing;
        struct head head = {one->at_ns, one->to, one->from, one->length};
        put(&head, sizeof head);
        put(one->data, one->length);
        outgoing = one->next;
        free(one);
    }
    outgoing_count = 0;
    last_outgoing = &outgoing;
    for (; notes_sent < note_count; notes_sent++) {
        uint32_t length = (uint32_t)strlen(notes[notes_sent]);
        put(&length, sizeof length);
        put(notes[notes_sent], length);
    }
    struct grant grant;
    get(&grant, sizeof grant);
    if (memcmp(grant.magic, "GRNT", 4)) lost();
    for (uint32_t i = 0; i < grant.datagrams; i++) {
        struct head head;
        get(&head, sizeof head);
        if (head.length > MOST_DATAGRAM) lost();
        struct datagram *one = malloc(sizeof *one + head.length);
        if (!one) lost();
        one->at_ns = head.at_ns, one->to = head.to, one->from = head.from, one->length = head.length;
        get(one->data, head.length);
        arrive(one);
    }
    limit_ns = grant.limit_ns, stops = grant.stops;
}

/* -- the order of the threads */

void enqueue(struct thread *t) {
    if (t->queued || t->ended) return;
    t->queued = 1;
    t->next = NULL;
    if (last_in_queue) last_in_queue->next = t;
    else first_in_queue = t;
    last_in_queue = t;
}

void wake_thread(struct thread *t, int by_event) {
    t->woken = by_event;
    t->waits = NOTHING;
    t->files = NULL;
    t->wake_ns = FOREVER;
    enqueue(t);
}

/* Wake `most` of the threads that wait for `key`, in the order in which they began to wait. */
int wake(enum waiting waits, const void *key, int most) {
    int count = 0;
    while (count < most) {
        struct thread *found = NULL;
        for (struct thread *t = all; t; t = t->after)
            if (t->waits == waits && t->key == key && (!found || t->ticket < found->ticket)) found = t;
        if (!found) break;
        wake_thread(found, 1);
        count++;
    }
    return count;
}

struct line *make_line(enum kind kind, int fd, int local, int peer) {
    int ends[2], way = kind == STREAM ? SOCK_STREAM : SOCK_SEQPACKET;
    struct line *u = calloc(1, sizeof *u);
    if (!u || SYS(SYS_socketpair, AF_UNIX, way | SOCK_CLOEXEC, 0, ends, 0, 0) < 0) lost();
    if (fd >= 0) {
        long flags = SYS(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0), closing = SYS(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0);
        SYS(SYS_dup3, ends[0], fd, closing & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0, 0);
        SYS(SYS_close, ends[0], 0, 0, 0, 0, 0);
        SYS(SYS_fcntl, fd, F_SETFL, flags, 0, 0, 0);
    } else {
        fd = ends[0];
    }
    u->kind = kind, u->fd = fd, u->local = local ? local : ephemeral++, u->peer = peer;
    u->other = (int)SYS(SYS_fcntl, ends[1], F_DUPFD_CLOEXEC, 512, 0, 0, 0);
    if (u->other < 0) u->other = ends[1];
    else SYS(SYS_close, ends[1], 0, 0, 0, 0, 0);
    u->next = lines, lines = u;
    return u;
}

/* Return the connection to a listening port; make it when the simulator sends for the first time. */
static struct line *called(struct line *listening) {
    for (struct line *u = lines; u; u = u->next)
        if (u->kind == STREAM && u->local == listening->local) return u;
    SYS(SYS_write, listening->other, "c", 1, 0, 0, 0);
    return make_line(STREAM, -1, listening->local, 0);
}

static void deliver(void) {
    for (struct timer *t = timers; t; t = t->next) {
        if (t->due_ns > now_ns) continue;
        uint64_t count = 1;
        if (t->interval_ns) {
            count += (uint64_t)((now_ns - t->due_ns) / t->interval_ns);
            t->due_ns += (int64_t)count * t->interval_ns;
        } else {
            t->due_ns = FOREVER;
        }
        SYS(SYS_write, t->fd, &count, sizeof count, 0, 0, 0);
        written = 1;
    }
    while (arrivals && arrivals->at_ns <= now_ns) {
        struct datagram *one = arrivals;
        struct line *to = NULL;
        for (struct line *u = lines; u && !to; u = u->next)
            if ((one->to && u->local == one->to) || (!one->to && u->peer == one->from)) to = u;
        if (to && to->kind == LISTENING) to = called(to);
        if (!to) {
            note("lost: a datagram for port %d, which the program has not opened", one->to);
        } else if (to->count == MOST_WAITING ||
                   SYS(SYS_sendto, to->other, one->data, one->length, MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0) !=
                       (long)one->length) {
            note("lost: data for port %d, whose socket is full", one->to);
        } else if (to->kind == DATAGRAMS) {
            to->from[(to->first + to->count++) % MOST_WAITING] = one->from;
        }
        arrivals = one->next;
        free(one);
        written = 1;
    }
}

static void find_next(void) {
    next_ns = arrivals ? arrivals->at_ns : FOREVER;
    for (struct timer *t = timers; t; t = t->next)
        if (t->due_ns < next_ns) next_ns = t->due_ns;
    for (struct thread *t = all; t; t = t->after)
        if (t->waits && t->wake_ns < next_ns) next_ns = t->wake_ns;
}

static void wake_files(void) {
    for (struct thread *t = all; t; t = t->after)
        if (t->waits == FILES && ready_now(t->files, t->count) > 0) wake_thread(t, 1);
}

static void wake_sleepers(void) {
    for (;;) {
        struct thread *found = NULL;
        for (struct thread *t = all; t; t = t->after) {
            if (!t->waits || t->wake_ns > now_ns) continue;
            if (!found || t->wake_ns < found->wake_ns ||
                (t->wake_ns == found->wake_ns && t->ticket < found->ticket)) found = t;
        }
        if (!found) return;
        wake_thread(found, 0);
    }
}

/* Return the next thread to run; advance the time if no thread can run. */
struct thread *choose(void) {
    for (int polled = 0;;) {
        if (!first_in_queue && written) wake_files(), written = 0;
        struct thread *t = first_in_queue;
        if (t) {
            first_in_queue = t->next;
            if (!first_in_queue) last_in_queue = NULL;
            t->queued = 0;
            find_next();
            return t;
        }
        find_next();
        if (next_ns <= limit_ns) {
            if (next_ns > now_ns) now_ns = next_ns;
            deliver();
            wake_sleepers();
        } else if (!written && !polled) { /* other files can change without a call that is seen here */
            polled = written = 1;
        } else {
            if (limit_ns > now_ns) now_ns = limit_ns;
            exchange();
            polled = 0, written = 1;
        }
    }
}

void hand_over(struct thread *to) {
    __atomic_store_n(&to->turn, 1, __ATOMIC_RELEASE);
    SYS(SYS_futex, &to->turn, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

void wait_turn(struct thread *t) {
    while (!__atomic_load_n(&t->turn, __ATOMIC_ACQUIRE))
        SYS(SYS_futex, &t->turn, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
    t->turn = 0;
}

static void pass_on(void) {
    struct thread *me = self, *next = choose();
    if (next == me) return;
    hand_over(next);
    wait_turn(me);
}

/* Wait for an event or until `wake_ns`; return 1 for an event, 0 if the time has come. */
int block(enum waiting waits, const void *key, int64_t wake_ns) {
    int kept = errno;
    self->waits = waits, self->key = key, self->wake_ns = wake_ns, self->ticket = tickets++;
    pass_on();
    errno = kept;
    return self->woken;
}

/* A call that shows the time or polls takes LOOK, and lets other threads run. */
void look(void) {
    int64_t then = now_ns + look_ns;
    if (!first_in_queue && then < next_ns && then <= limit_ns && !written) {
        now_ns = then;
        return;
    }
    block(TIME, NULL, then);
}

int block_files(struct pollfd *files, nfds_t count, int64_t wake_ns) {
    self->files = files, self->count = count;
    return block(FILES, NULL, wake_ns);
}

void sleep_until(int64_t ns) {
    do block(TIME, NULL, ns);
    while (now_ns < ns);
    pthread_testcancel();
}

/* -- the start */

static void in_child(void) {
    state = 3;
    without_traps();
}

static void in_parent(void) { note("not in virtual time: a process that the program has started"); }

static const char *option(const char *given, const char *name) {
    size_t size = strlen(name);
    for (const char *at = given; at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (!strncmp(at, name, size) && at[size] == '=') return at + size + 1;
    return "";
}

static int read_ports(const char *given, int *ports) {
    int count = 0;
    while (count < MOST_PORTS && *given >= '0' && *given <= '9') {
        char *end;
        ports[count++] = (int)strtol(given, &end, 10);
        given = *end == ':' ? end + 1 : end;
    }
    return count;
}

__attribute__((constructor)) void start(void) {
    if (state) return;
    state = 1;
    const char *given = getenv("RTSIM_VIRTUAL_TIME");
    owner = getpid();
    if (!given || atol(option(given, "pid")) != owner) {
        state = 3;
        if (given) without_traps();
        return;
    }
    control = atoi(option(given, "fd"));
    look_ns = atoll(option(given, "look"));
    count_in = read_ports(option(given, "in"), ports_in);
    count_out = read_ports(option(given, "out"), ports_out);
    main_thread.id = pthread_self(), main_thread.wake_ns = FOREVER;
    all = self = &main_thread;
    threads = 1;
    pthread_key_create(&at_end, thread_ends);
    pthread_setspecific(at_end, &main_thread);
    pthread_atfork(NULL, in_parent, in_child);
    set_traps();
    state = 2;
    exchange();
}
