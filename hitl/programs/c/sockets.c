/* Waiting for files, and sockets with declared ports. */
#include "virtual_time.h"

/* -- waiting for files and sockets */

int64_t timeout_ns(const struct timespec *t) {
    return t ? after(duration(t->tv_sec, t->tv_nsec)) : FOREVER;
}

static int poll_until(struct pollfd *files, nfds_t count, int64_t wake_ns) {
    for (;;) {
        int found = (int)with_errno(ready_now(files, count));
        if (found) return found;
        if (now_ns >= wake_ns) {
            look();
            return 0;
        }
        block_files(files, count, wake_ns);
        pthread_testcancel();
    }
}

EXPORT int poll(struct pollfd *files, nfds_t count, int ms) {
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    if (!active()) return (int)with_errno(SYS(SYS_ppoll, files, count, ms < 0 ? NULL : &t, 0, 8, 0));
    return poll_until(files, count, ms < 0 ? FOREVER : timeout_ns(&t));
}

EXPORT int ppoll(struct pollfd *files, nfds_t count, const struct timespec *t, const sigset_t *mask) {
    if (!active()) return (int)with_errno(SYS(SYS_ppoll, files, count, t, mask, 8, 0));
    return poll_until(files, count, timeout_ns(t));
}

static int select_until(int count, fd_set *r, fd_set *w, fd_set *x, int64_t wake_ns) {
    struct pollfd files[FD_SETSIZE];
    nfds_t used = 0;
    for (int fd = 0; fd < count && fd < FD_SETSIZE; fd++) {
        short events = (short)((r && FD_ISSET(fd, r) ? POLLIN : 0) | (w && FD_ISSET(fd, w) ? POLLOUT : 0) |
                               (x && FD_ISSET(fd, x) ? POLLPRI : 0));
        if (events) files[used++] = (struct pollfd){fd, events, 0};
    }
    if (poll_until(files, used, wake_ns) < 0) return -1;
    if (r) FD_ZERO(r);
    if (w) FD_ZERO(w);
    if (x) FD_ZERO(x);
    int found = 0;
    for (nfds_t i = 0; i < used; i++) {
        int fd = files[i].fd, got = files[i].revents, want = files[i].events;
        if (got & POLLNVAL) {
            errno = EBADF;
            return -1;
        }
        if ((want & POLLIN) && (got & (POLLIN | POLLHUP | POLLERR))) FD_SET(fd, r), found++;
        if ((want & POLLOUT) && (got & (POLLOUT | POLLERR))) FD_SET(fd, w), found++;
        if ((want & POLLPRI) && (got & POLLPRI)) FD_SET(fd, x), found++;
    }
    return found;
}

EXPORT int select(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x,
                  struct timeval *restrict t) {
    struct timespec left = {t ? t->tv_sec : 0, t ? t->tv_usec * 1000 : 0};
    if (!active()) return (int)with_errno(SYS(SYS_pselect6, count, r, w, x, t ? &left : NULL, 0));
    int64_t wake_ns = t ? timeout_ns(&left) : FOREVER;
    int found = select_until(count, r, w, x, wake_ns);
    if (t && wake_ns != FOREVER) {
        int64_t rest = wake_ns > now_ns ? wake_ns - now_ns : 0;
        t->tv_sec = rest / SECOND, t->tv_usec = rest % SECOND / 1000;
    }
    return found;
}

EXPORT int pselect(int count, fd_set *restrict r, fd_set *restrict w, fd_set *restrict x,
                   const struct timespec *restrict t, const sigset_t *restrict mask) {
    (void)mask;
    if (!active()) return (int)with_errno(SYS(SYS_pselect6, count, r, w, x, t, 0));
    return select_until(count, r, w, x, timeout_ns(t));
}

/* What epoll watches, for sockets that are replaced after they were added. */
static struct watch {
    struct watch *next;
    int set, fd;
    struct epoll_event event;
} *watches;

static void remove_watches(int set, int fd) {
    for (struct watch **at = &watches; *at;) {
        struct watch *w = *at;
        if ((set >= 0 && w->set != set) || (w->fd != fd && (set >= 0 || w->set != fd))) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free(w);
    }
}

void watch_no_more(int fd) { remove_watches(-1, fd); }

void watch_again(int fd) {
    for (struct watch *w = watches; w; w = w->next)
        if (w->fd == fd) SYS(SYS_epoll_ctl, w->set, EPOLL_CTL_ADD, fd, &w->event, 0, 0);
}

EXPORT int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
    int result = (int)with_errno(SYS(SYS_epoll_ctl, set, operation, fd, event, 0, 0));
    if (result || !active()) return result;
    written = 1; /* a thread may wait for the set */
    remove_watches(set, fd);
    struct watch *w = operation == EPOLL_CTL_DEL ? NULL : calloc(1, sizeof *w);
    if (w) w->set = set, w->fd = fd, w->event = *event, w->next = watches, watches = w;
    return 0;
}

static int epoll_until(int fd, struct epoll_event *events, int most, int64_t wake_ns) {
    for (;;) {
        int found = (int)with_errno(SYS(SYS_epoll_pwait, fd, events, most, 0, 0, 8));
        if (found) return found;
        if (now_ns >= wake_ns) {
            look();
            return 0;
        }
        struct pollfd file = {fd, POLLIN, 0};
        block_files(&file, 1, wake_ns);
        pthread_testcancel();
    }
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int ms) {
    if (!active()) return (int)with_errno(SYS(SYS_epoll_pwait, fd, events, most, ms, 0, 8));
    return epoll_until(fd, events, most, ms < 0 ? FOREVER : after(ms * 1000000LL));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int ms, const sigset_t *mask) {
    (void)mask;
    return epoll_wait(fd, events, most, ms);
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *t,
                        const sigset_t *mask) {
    (void)mask;
    if (!active()) return epoll_wait(fd, events, most, t ? (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000) : -1);
    return epoll_until(fd, events, most, timeout_ns(t));
}

struct line *line_of(int fd) {
    struct line *u = lines;
    while (u && u->fd != fd) u = u->next;
    return u;
}

static int name_of(int port, struct sockaddr *address, socklen_t *size) {
    struct sockaddr_in found = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(address, &found, *size < sizeof found ? *size : sizeof found);
    *size = sizeof found;
    return 0;
}

/* Wait until `fd` is ready, unless the call must not block; return 0, or -1 with errno. */
static int until_ready(int fd, short events, int flags) {
    struct pollfd file = {fd, events, 0};
    if (ready_now(&file, 1)) return 0;
    if (flags & MSG_DONTWAIT || SYS(SYS_fcntl, fd, F_GETFL, 0, 0, 0, 0) & O_NONBLOCK) {
        look();
        return 0; /* the call itself says EAGAIN, or finds what has come meanwhile */
    }
    struct line *u = line_of(fd);
    int64_t patience = u && events == POLLIN ? u->patience_ns : 0;
    if (poll_until(&file, 1, patience ? after(patience) : FOREVER)) return 0;
    errno = EAGAIN;
    return -1;
}

#define WAIT_FOR(fd, events, flags) \
    if (active() && until_ready(fd, events, flags)) return -1

/* Fill in the sender of the datagram that was just received from a declared port. */
static void sender(int fd, int flags, struct sockaddr *address, socklen_t *size) {
    struct line *u = line_of(fd);
    if (!u || !u->count) return;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(u->from[u->first])};
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (address && size) {
        memcpy(address, &from, *size < sizeof from ? *size : sizeof from);
        *size = sizeof from;
    }
    if (flags & MSG_PEEK) return;
    u->first = (u->first + 1) % MOST_WAITING, u->count--;
}

EXPORT ssize_t read(int fd, void *data, size_t size) {
    WAIT_FOR(fd, POLLIN, 0);
    ssize_t got = with_errno(SYS(SYS_read, fd, data, size, 0, 0, 0));
    if (got >= 0 && active()) sender(fd, 0, NULL, NULL);
    return got;
}

EXPORT ssize_t readv(int fd, const struct iovec *parts, int count) {
    WAIT_FOR(fd, POLLIN, 0);
    ssize_t got = with_errno(SYS(SYS_readv, fd, parts, count, 0, 0, 0));
    if (got >= 0 && active()) sender(fd, 0, NULL, NULL);
    return got;
}

EXPORT ssize_t recvfrom(int fd, void *restrict data, size_t size, int flags,
                        struct sockaddr *restrict address, socklen_t *restrict address_size) {
    WAIT_FOR(fd, POLLIN, flags);
    struct line *u = active() ? line_of(fd) : NULL;
    if (!u) return with_errno(SYS(SYS_recvfrom, fd, data, size, flags, address, address_size));
    ssize_t got = with_errno(SYS(SYS_recvfrom, fd, data, size, flags, 0, 0));
    if (got >= 0) sender(fd, flags, address, address_size);
    return got;
}

EXPORT ssize_t recv(int fd, void *data, size_t size, int flags) {
    return recvfrom(fd, data, size, flags, NULL, NULL);
}

EXPORT ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    WAIT_FOR(fd, POLLIN, flags);
    struct line *u = active() ? line_of(fd) : NULL;
    socklen_t room = message->msg_namelen; /* the system sets it to 0: its socket has no names */
    ssize_t got = with_errno(SYS(SYS_recvmsg, fd, message, flags, 0, 0, 0));
    if (u && got >= 0) {
        message->msg_namelen = room;
        sender(fd, flags, message->msg_name, &message->msg_namelen);
        if (u->kind == DATAGRAMS) message->msg_flags &= ~MSG_EOR; /* which datagrams do not have */
    }
    return got;
}

/* The names of these functions in programs that were compiled with _FORTIFY_SOURCE. */
static void fits(size_t size, size_t room) {
    if (size > room) abort();
}
EXPORT ssize_t __read_chk(int fd, void *data, size_t size, size_t room) {
    fits(size, room);
    return read(fd, data, size);
}
EXPORT ssize_t __recv_chk(int fd, void *data, size_t size, size_t room, int flags) {
    fits(size, room);
    return recv(fd, data, size, flags);
}
EXPORT ssize_t __recvfrom_chk(int fd, void *restrict data, size_t size, size_t room, int flags,
                              struct sockaddr *restrict address, socklen_t *restrict address_size) {
    fits(size, room);
    return recvfrom(fd, data, size, flags, address, address_size);
}
EXPORT int __poll_chk(struct pollfd *files, nfds_t count, int ms, size_t room) {
    fits(count * sizeof *files, room);
    return poll(files, count, ms);
}
EXPORT int __ppoll_chk(struct pollfd *files, nfds_t count, const struct timespec *t, const sigset_t *mask,
                       size_t room) {
    fits(count * sizeof *files, room);
    return ppoll(files, count, t, mask);
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *t) {
    (void)t;
    unsigned got = 0;
    while (got < count) {
        ssize_t n = recvmsg(fd, &messages[got].msg_hdr, got ? flags | MSG_DONTWAIT : flags & ~MSG_WAITFORONE);
        if (n < 0) break;
        messages[got++].msg_len = (unsigned)n;
    }
    return got ? (int)got : count ? -1 : 0;
}

EXPORT int accept4(int fd, struct sockaddr *restrict address, socklen_t *restrict size, int flags) {
    WAIT_FOR(fd, POLLIN, 0);
    struct line *listening = active() ? line_of(fd) : NULL;
    if (listening) {
        char byte;
        long got = with_errno(SYS(SYS_read, fd, &byte, 1, 0, 0, 0));
        struct line *u = lines;
        while (u && (u->kind != STREAM || u->local != listening->local || u->accepted)) u = u->next;
        if (got < 0) return -1;
        if (!u) {
            errno = ECONNABORTED;
            return -1;
        }
        u->accepted = 1;
        if (flags & SOCK_NONBLOCK) SYS(SYS_fcntl, u->fd, F_SETFL, O_RDWR | O_NONBLOCK, 0, 0, 0);
        if (address && size) name_of(u->local, address, size);
        return u->fd;
    }
    return (int)with_errno(SYS(SYS_accept4, fd, address, size, flags, 0, 0));
}

EXPORT int accept(int fd, struct sockaddr *restrict address, socklen_t *restrict size) {
    return accept4(fd, address, size, 0);
}

/* -- UDP sockets with declared ports */

static int declared(const int *ports, int count, int port) {
    for (int i = 0; i < count; i++)
        if (ports[i] == port) return 1;
    return 0;
}

static int port_of(const struct sockaddr *address, socklen_t size) {
    if (!address) return 0;
    if (address->sa_family == AF_INET && size >= sizeof(struct sockaddr_in))
        return ntohs(((const struct sockaddr_in *)address)->sin_port);
    if (address->sa_family == AF_INET6 && size >= sizeof(struct sockaddr_in6))
        return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
    return 0;
}

static int is_udp(int fd) {
    int kind = 0, domain = 0;
    socklen_t size = sizeof kind;
    if (SYS(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &kind, &size, 0) < 0 || kind != SOCK_DGRAM) return 0;
    size = sizeof domain;
    SYS(SYS_getsockopt, fd, SOL_SOCKET, SO_DOMAIN, &domain, &size, 0);
    return domain == AF_INET || domain == AF_INET6;
}

/* Replace the socket `fd` by one end of a local pair. */
static struct line *replace_socket(int fd, enum kind kind, int local, int peer) {
    struct line *u = line_of(fd);
    if (u) {
        if (local) u->local = local;
        if (peer) u->peer = peer;
        return u;
    }
    struct timeval patience = {0, 0};
    socklen_t size = sizeof patience;
    SYS(SYS_getsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, &size, 0);
    u = make_line(kind, fd, local, peer);
    u->patience_ns = patience.tv_sec * SECOND + patience.tv_usec * 1000LL;
    return u;
}

/* Note that the program uses a port that is not declared; return whether the call must fail. */
static int refused(const char *what, int port) {
    note("%s: %s %d, which is not declared", other_ports ? "not in virtual time" : "refused", what, port);
    if (!other_ports) errno = EACCES;
    return !other_ports;
}

EXPORT int bind(int fd, const struct sockaddr *address, socklen_t size) {
    int port = active() ? port_of(address, size) : 0;
    if (!port) return REAL(bind)(fd, address, size);
    if (declared(ports_in, count_in, port)) {
        replace_socket(fd, is_udp(fd) ? DATAGRAMS : LISTENING, port, 0);
        note("opened: port %d", port);
        return 0;
    }
    if (refused("a socket at port", port)) return -1;
    return REAL(bind)(fd, address, size);
}

EXPORT int connect(int fd, const struct sockaddr *address, socklen_t size) {
    int port = active() ? port_of(address, size) : 0;
    if (!port) return REAL(connect)(fd, address, size);
    if (declared(ports_out, count_out, port)) {
        replace_socket(fd, line_of(fd) || is_udp(fd) ? DATAGRAMS : STREAM, 0, port);
        return 0;
    }
    if (refused("a connection to port", port)) return -1;
    return REAL(connect)(fd, address, size);
}

EXPORT int listen(int fd, int most) {
    return active() && line_of(fd) ? 0 : REAL(listen)(fd, most);
}

static ssize_t send_out(int fd, const struct sockaddr *address, socklen_t address_size,
                        const struct iovec *parts, size_t count);

/* Send the first part of the data of a stream that does not fit into one message. */
static ssize_t send_part(int fd, const struct iovec *parts, size_t count) {
    struct iovec first = parts[0];
    while (count > 1 && !first.iov_len) first = *++parts, count--;
    if (first.iov_len > MOST_DATAGRAM) first.iov_len = MOST_DATAGRAM;
    return send_out(fd, NULL, 0, &first, 1);
}

/* Send data to a declared port; return -2 if the datagram has another destination. */
static ssize_t send_out(int fd, const struct sockaddr *address, socklen_t address_size,
                        const struct iovec *parts, size_t count) {
    struct line *u = line_of(fd);
    int port = address ? port_of(address, address_size) : u ? u->peer : 0;
    int connected = u && u->kind == STREAM && !address; /* what it sends goes to the caller of its port */
    if (!connected && (!declared(ports_out, count_out, port) || !(u || is_udp(fd)))) {
        if (port && refused("data for port", port)) return -1;
        if (!u) return -2;
        errno = port ? ENETUNREACH : EDESTADDRREQ;
        return -1;
    }
    size_t size = 0;
    for (size_t i = 0; i < count; i++) size += parts[i].iov_len;
    if (size > MOST_DATAGRAM) {
        if (connected) return send_part(fd, parts, count);
        errno = EMSGSIZE;
        return -1;
    }
    if (!u) u = replace_socket(fd, DATAGRAMS, 0, 0);
    send_datagram(port, u->local, parts, count, size);
    return (ssize_t)size;
}

EXPORT ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *address,
                      socklen_t address_size) {
    if (active()) {
        struct iovec part = {(void *)data, size};
        ssize_t sent = send_out(fd, address, address_size, &part, 1);
        if (sent != -2) return sent;
        if (until_ready(fd, POLLOUT, flags)) return -1;
        written = 1;
    }
    return with_errno(SYS(SYS_sendto, fd, data, size, flags, address, address_size));
}

EXPORT ssize_t send(int fd, const void *data, size_t size, int flags) {
    return sendto(fd, data, size, flags, NULL, 0);
}

EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    if (active()) {
        ssize_t sent = send_out(fd, message->msg_name, message->msg_namelen, message->msg_iov, message->msg_iovlen);
        if (sent != -2) return sent;
        if (until_ready(fd, POLLOUT, flags)) return -1;
        written = 1;
    }
    return with_errno(SYS(SYS_sendmsg, fd, message, flags, 0, 0, 0));
}

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) {
    unsigned sent = 0;
    while (sent < count) {
        ssize_t n = sendmsg(fd, &messages[sent].msg_hdr, flags);
        if (n < 0) break;
        messages[sent++].msg_len = (unsigned)n;
    }
    return sent ? (int)sent : count ? -1 : 0;
}

EXPORT ssize_t write(int fd, const void *data, size_t size) {
    if (active()) {
        struct iovec part = {(void *)data, size};
        if (line_of(fd)) return send_out(fd, NULL, 0, &part, 1);
        if (until_ready(fd, POLLOUT, 0)) return -1;
        written = 1;
    }
    return with_errno(SYS(SYS_write, fd, data, size, 0, 0, 0));
}

EXPORT ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (active()) {
        if (line_of(fd)) return send_out(fd, NULL, 0, parts, (size_t)count);
        if (until_ready(fd, POLLOUT, 0)) return -1;
        written = 1;
    }
    return with_errno(SYS(SYS_writev, fd, parts, count, 0, 0, 0));
}

EXPORT int getsockname(int fd, struct sockaddr *restrict address, socklen_t *restrict size) {
    struct line *u = active() ? line_of(fd) : NULL;
    return u ? name_of(u->local, address, size) : REAL(getsockname)(fd, address, size);
}

EXPORT int getpeername(int fd, struct sockaddr *restrict address, socklen_t *restrict size) {
    struct line *u = active() ? line_of(fd) : NULL;
    if (!u) return REAL(getpeername)(fd, address, size);
    if (u->peer) return name_of(u->peer, address, size);
    errno = ENOTCONN;
    return -1;
}

EXPORT int setsockopt(int fd, int level, int option, const void *value, socklen_t size) {
    struct line *u = active() ? line_of(fd) : NULL;
    if (!u) return REAL(setsockopt)(fd, level, option, value, size);
    if (level == SOL_SOCKET && option == SO_RCVTIMEO && size >= sizeof(struct timeval)) {
        const struct timeval *t = value;
        u->patience_ns = t->tv_sec * SECOND + t->tv_usec * 1000LL;
    }
    return 0;
}
