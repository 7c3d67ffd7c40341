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
struct datagram *arrivals;
struct timer *timers;
struct line *lines;
struct barrier *barriers;
int ports_in[MOST_PORTS], ports_out[MOST_PORTS], count_in, count_out, other_ports, ephemeral = 49152;
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
    /* The last places are for what ends the run, and for a note about the notes that have no place. */
    int room = strncmp(text, "refused: ", 9) ? MOST_NOTES - 2 : MOST_NOTES;
    if (note_count < room) strcpy(notes[note_count++], text);
    else if (note_count == MOST_NOTES - 2)
        strcpy(notes[note_count++], "further notes of the program are not listed");
}

/* -- the exchange with the simulator */

static const char DONE[4] = {'D', 'O', 'N', 'E'}, GRANT[4] = {'G', 'R', 'N', 'T'};

struct __attribute__((packed)) report { /* of the program: it has used its time */
    char magic[4];
    uint32_t datagrams, notes;
    int32_t threads;
    int64_t now_ns;
    uint32_t size; /* of the datagrams and notes that follow */
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

static const char ENDED[] = "the simulator has ended", NO_MEMORY[] = "there is no memory left",
                  DAMAGED[] = "a grant of the simulator is damaged";

void give_up(const char *why) {
    char text[100];
    int size = snprintf(text, sizeof text, "virtual time: %s\n", why);
    SYS(SYS_write, 2, text, size, 0, 0, 0);
    SYS(SYS_exit_group, 113, 0, 0, 0, 0, 0);
}

static char *outgoing; /* the report, the datagrams and the notes that follow it */
static size_t outgoing_size = sizeof(struct report), outgoing_room;
static unsigned outgoing_count;

static void append(const void *data, size_t size) {
    if (outgoing_size + size > outgoing_room) {
        outgoing_room = 2 * (outgoing_size + size) + 4096;
        outgoing = realloc(outgoing, outgoing_room);
        if (!outgoing) give_up(NO_MEMORY);
    }
    memcpy(outgoing + outgoing_size, data, size);
    outgoing_size += size;
}

void send_datagram(int port, int from, const struct iovec *parts, size_t count, size_t size) {
    static int64_t at_ns;
    static int sends;
    sends = now_ns == at_ns ? sends + 1 : 0, at_ns = now_ns;
    if (outgoing_size + size > MOST_OUTGOING) {
        note("lost: a datagram for port %d, after %u MiB without a pause", port, MOST_OUTGOING >> 20);
    } else {
        struct head head = {now_ns, (uint16_t)port, (uint16_t)from, (uint32_t)size};
        append(&head, sizeof head);
        for (size_t i = 0; i < count; i++) append(parts[i].iov_base, parts[i].iov_len);
        outgoing_count++;
    }
    if (stops) limit_ns = now_ns;
    if (sends > MOST_SENDS) look();
}

static void report(void) {
    unsigned said = (unsigned)(note_count - notes_sent);
    for (; notes_sent < note_count; notes_sent++) {
        uint32_t length = (uint32_t)strlen(notes[notes_sent]);
        append(&length, sizeof length);
        append(notes[notes_sent], length);
    }
    append("", 0);
    struct report head = {"", outgoing_count, said, threads, now_ns, (uint32_t)(outgoing_size - sizeof head)};
    memcpy(head.magic, DONE, sizeof DONE);
    memcpy(outgoing, &head, sizeof head);
    for (size_t at = 0; at < outgoing_size;) {
        long n = SYS(SYS_sendto, control, outgoing + at, outgoing_size - at, MSG_NOSIGNAL, 0, 0);
        if (n == -EINTR) continue;
        if (n <= 0) give_up(ENDED);
        at += (size_t)n;
    }
    outgoing_size = sizeof head, outgoing_count = 0;
}

/* Return the next `size` bytes of the simulator, which sends one grant at a time. */
static void get(void *data, size_t size) {
    static char incoming[1 << 16];
    static size_t first, last;
    for (char *at = data; size;) {
        if (first == last) {
            long n = SYS(SYS_read, control, incoming, sizeof incoming, 0, 0, 0);
            if (n == -EINTR) continue;
            if (n <= 0) give_up(ENDED);
            first = 0, last = (size_t)n;
        }
        size_t part = last - first < size ? last - first : size;
        memcpy(at, incoming + first, part);
        at += part, size -= part, first += part;
    }
}

static void arrive(struct datagram *one) {
    struct datagram **at = &arrivals;
    while (*at && (*at)->at_ns <= one->at_ns) at = &(*at)->next;
    one->next = *at;
    *at = one;
}

/* Note data that the program has written to a declared port by a function that is not replaced. */
static void find_unsent(void) {
    for (struct line *u = lines; u; u = u->next) {
        int size = 0;
        if (u->unsent || u->kind == LISTENING) continue;
        if (SYS(SYS_ioctl, u->other, FIONREAD, &size, 0, 0, 0) < 0 || !size) continue;
        u->unsent = 1;
        note("lost: data at the socket for port %d, written by a function that is not replaced (stdio, or a "
             "copy by dup)", u->peer ? u->peer : u->local);
    }
}

static void exchange(void) {
    find_unsent();
    report();
    struct grant grant;
    get(&grant, sizeof grant);
    if (memcmp(grant.magic, GRANT, sizeof GRANT)) give_up(DAMAGED);
    for (uint32_t i = 0; i < grant.datagrams; i++) {
        struct head head;
        get(&head, sizeof head);
        if (head.length > MOST_DATAGRAM) give_up(DAMAGED);
        struct datagram *one = malloc(sizeof *one + head.length);
        if (!one) give_up(NO_MEMORY);
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
    if (!u) give_up(NO_MEMORY);
    if (SYS(SYS_socketpair, AF_UNIX, way | SOCK_CLOEXEC, 0, ends, 0, 0) < 0)
        give_up("the program has too many open files");
    if (fd >= 0) {
        long flags = SYS(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0), closing = SYS(SYS_fcntl, fd, F_GETFD, 0, 0, 0, 0);
        SYS(SYS_dup3, ends[0], fd, closing & FD_CLOEXEC ? O_CLOEXEC : 0, 0, 0, 0);
        SYS(SYS_close, ends[0], 0, 0, 0, 0, 0);
        SYS(SYS_fcntl, fd, F_SETFL, flags, 0, 0, 0);
        watch_again(fd);
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

/* Add the expirations of a timer that is due to those that the program has not read. */
void expire(struct timer *t) {
    uint64_t count = 1;
    if (t->due_ns > now_ns) return;
    if (t->interval_ns) {
        count += (uint64_t)((now_ns - t->due_ns) / t->interval_ns);
        t->due_ns += (int64_t)count * t->interval_ns;
    } else {
        t->due_ns = FOREVER;
    }
    SYS(SYS_write, t->fd, &count, sizeof count, 0, 0, 0);
    written = 1;
}

static void deliver(void) {
    for (struct timer *t = timers; t; t = t->next) expire(t);
    while (arrivals && arrivals->at_ns <= now_ns) {
        struct datagram *one = arrivals;
        struct line *to = NULL;
        for (struct line *u = lines; u && !to; u = u->next)
            if ((one->to && u->local == one->to) || (!one->to && u->peer == one->from)) to = u;
        if (to && to->kind == LISTENING) to = called(to);
        if (!to && !one->to) {
            note("lost: a datagram from port %d, for a socket that the program has not opened", one->from);
        } else if (!to) {
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

static int foreign_waits; /* threads that wait for files that change without a call that is seen here */

static void wake_files(void) {
    for (struct thread *t = all; t; t = t->after)
        if (t->waits == FILES && (written || t->foreign) && ready_now(t->files, t->count) > 0) wake_thread(t, 1);
    written = 0;
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

/* Return the next thread to run; advance the time if no thread can run.
 *
 * Files are looked at before each advance, so that the order of the threads does not depend on the
 * limits that the simulator chooses.
 */
struct thread *choose(void) {
    for (;;) {
        if (!first_in_queue && (written || foreign_waits)) wake_files();
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
        } else {
            if (limit_ns > now_ns) now_ns = limit_ns;
            exchange();
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
    if (!first_in_queue && then < next_ns && then <= limit_ns && !written && !foreign_waits) {
        now_ns = then;
        return;
    }
    block(TIME, NULL, then);
}

/* Let the threads run that can run, such as the one that waited for what the caller has released. */
void give_way(void) {
    enqueue(self);
    pass_on();
}

int block_files(struct pollfd *files, nfds_t count, int64_t wake_ns) {
    int foreign = 0;
    for (nfds_t i = 0; i < count; i++)
        if (files[i].fd >= 0 && !timer_of(files[i].fd) && !line_of(files[i].fd)) foreign = 1;
    self->files = files, self->count = count, self->foreign = foreign;
    foreign_waits += foreign;
    int result = block(FILES, NULL, wake_ns);
    foreign_waits -= foreign;
    return result;
}

void sleep_until(int64_t ns) {
    do {
        block(TIME, NULL, ns);
        pthread_testcancel();
    } while (now_ns < ns);
}

/* -- the start */

/* A process that the program starts must not keep the connection to the simulator open. */
static void leave(int fd) {
    state = 3;
    SYS(SYS_close, fd, 0, 0, 0, 0, 0);
    unsetenv("RTSIM_VIRTUAL_TIME");
    without_traps();
}

static void in_child(void) {
    leave(control);
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
    owner = (pid_t)SYS(SYS_getpid, 0, 0, 0, 0, 0, 0);
    if (!given || atol(option(given, "pid")) != owner) {
        state = 3;
        if (given) leave(atoi(option(given, "fd")));
        return;
    }
    control = atoi(option(given, "fd"));
    look_ns = atoll(option(given, "look"));
    count_in = read_ports(option(given, "in"), ports_in);
    count_out = read_ports(option(given, "out"), ports_out);
    other_ports = atoi(option(given, "others"));
    main_thread.id = pthread_self(), main_thread.wake_ns = FOREVER;
    all = self = &main_thread;
    threads = 1;
    pthread_key_create(&at_end, thread_ends);
    pthread_setspecific(at_end, &main_thread);
    pthread_atfork(NULL, in_parent, in_child);
    set_traps();
    setvbuf(stdout, NULL, _IOLBF, 0); /* so that the log has the last lines of a program that is ended */
    state = 2;
    exchange();
}

/* Report what the program has sent before it ends; there is no answer. */
__attribute__((destructor)) static void end(void) {
    if (state != 2 || !self || SYS(SYS_getpid, 0, 0, 0, 0, 0, 0) != owner) return;
    find_unsent();
    state = 3, threads = 0;
    report();
}
