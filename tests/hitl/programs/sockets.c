/* Sockets with declared ports:  sockets SUBJECT.  UDP 4000 and TCP 4001 are the program's ports,
 * UDP 5000 and TCP 5001 are those that it calls.  Prints what the test compares. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in at(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}
#define ADDRESS(of) (struct sockaddr *)&of, sizeof of

/* Sizes that the compiler does not know: with _FORTIFY_SOURCE, it then calls functions of other names. */
static volatile size_t most = 100, one = 1;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)(t.tv_sec - 1) * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int bound(int kind, int port) {
    int fd = socket(AF_INET, kind, 0), on = 1;
    struct sockaddr_in here = at(port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, ADDRESS(here))) perror("bind");
    return fd;
}

static void got(const char *how, ssize_t size, const char *data, const struct sockaddr_in *from) {
    if (size < 0) printf("%s: %s at %.1f ms\n", how, strerror(errno), now());
    else printf("%s: %.*s from %d at %.1f ms\n", how, (int)size, data, from ? ntohs(from->sin_port) : 0, now());
}

static void receives(void) { /* one datagram by each call */
    int fd = bound(SOCK_DGRAM, 4000);
    char data[100];
    struct sockaddr_in from = {0};
    socklen_t size = sizeof from;
    got("peek", recvfrom(fd, data, most, MSG_PEEK, (struct sockaddr *)&from, &size), data, &from);
    got("recvfrom", recvfrom(fd, data, most, 0, (struct sockaddr *)&from, &size), data, &from);
    got("recv", recv(fd, data, most, 0), data, NULL);
    got("read", read(fd, data, most), data, NULL);
    struct iovec part = {data, sizeof data};
    got("readv", readv(fd, &part, 1), data, NULL);
    memset(&from, 0, sizeof from);
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1};
    got("recvmsg", recvmsg(fd, &message, 0), data, &from);
    struct mmsghdr several[3] = {{.msg_hdr = message}, {.msg_hdr = message}, {.msg_hdr = message}};
    several[0].msg_hdr.msg_namelen = sizeof from;
    printf("recvmmsg: %d\n", recvmmsg(fd, several, 3, MSG_WAITFORONE, NULL));
    got("short", recv(fd, data, 2, 0), data, NULL);
    got("empty", recv(fd, data, 2, 0), data, NULL);
    got("MSG_DONTWAIT", recv(fd, data, most, MSG_DONTWAIT), data, NULL);
    struct timeval patience = {0, 30000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    got("SO_RCVTIMEO", recv(fd, data, most, 0), data, NULL);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    got("O_NONBLOCK", recv(fd, data, most, 0), data, NULL);
    struct sockaddr_in name;
    size = sizeof name;
    int result = getsockname(fd, (struct sockaddr *)&name, &size);
    printf("getsockname: %d %d\n", result, ntohs(name.sin_port));
}

static void waits(void) { /* for a datagram, by poll, select and epoll */
    int fd = bound(SOCK_DGRAM, 4000), set = epoll_create1(0);
    char data[100];
    struct pollfd file = {fd, POLLIN, 0};
    printf("poll: %d", poll(&file, one, 1000)), printf(" at %.1f ms\n", now());
    got("data", recv(fd, data, most, 0), data, NULL);
    fd_set files;
    FD_ZERO(&files);
    FD_SET(fd, &files);
    printf("select: %d", select(fd + 1, &files, NULL, NULL, NULL)), printf(" at %.1f ms\n", now());
    got("data", recv(fd, data, most, 0), data, NULL);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    printf("epoll: %d", epoll_wait(set, &event, 1, 1000)), printf(" at %.1f ms\n", now());
    got("data", recv(fd, data, most, 0), data, NULL);
    printf("epoll: %d", epoll_wait(set, &event, 1, 10)), printf(" at %.1f ms\n", now());
}

static void early(void) { /* epoll watches the sockets before they have their ports */
    int fd = socket(AF_INET, SOCK_DGRAM, 0), removed = socket(AF_INET, SOCK_DGRAM, 0), set = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_in here = at(4000);
    char data[100];
    epoll_ctl(set, EPOLL_CTL_ADD, removed, &event);
    close(removed);
    event.events = EPOLLIN | EPOLLET, event.data.fd = fd;
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
    if (bind(fd, ADDRESS(here))) perror("bind");
    int found = epoll_wait(set, &event, 1, 1000);
    printf("epoll: %d %d at %.1f ms\n", found, event.data.fd == fd, now());
    got("data", recv(fd, data, sizeof data, 0), data, NULL);
    epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL);
    found = epoll_wait(set, &event, 1, 1000);
    printf("epoll: %d at %.1f ms\n", found, now());
}

static void sends(void) { /* one datagram by each call */
    int fd = bound(SOCK_DGRAM, 4000), other = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in there = at(5000), elsewhere = at(5009);
    struct iovec parts[2] = {{"ab", 2}, {"cd", 2}};
    struct msghdr message = {.msg_name = &there, .msg_namelen = sizeof there, .msg_iov = parts, .msg_iovlen = 2};
    static char long_one[70000];
    sendto(fd, "sendto", 6, 0, ADDRESS(there));
    usleep(1000);
    sendmsg(fd, &message, 0);
    if (sendto(fd, long_one, sizeof long_one, 0, ADDRESS(there)) < 0) perror("long");
    if (sendto(fd, "x", 1, 0, ADDRESS(elsewhere)) < 0) perror("elsewhere");
    if (send(fd, "x", 1, 0) < 0) perror("nowhere");
    connect(other, ADDRESS(there));
    send(other, "send", 4, 0);
    struct mmsghdr several[2] = {{.msg_hdr = {.msg_iov = parts, .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = parts + 1, .msg_iovlen = 1}}};
    int sent = sendmmsg(other, several, 2, 0);
    printf("sendmmsg: %d %u\n", sent, several[1].msg_len);
    if (write(other, "write", 5) != 5 || writev(other, parts, 2) != 4) perror("write");
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    int result = getpeername(other, (struct sockaddr *)&name, &size);
    printf("getpeername: %d %d\n", result, ntohs(name.sin_port));
    sendto(socket(AF_INET, SOCK_DGRAM, 0), "unbound", 7, 0, ADDRESS(there));
}

static void serves(void) {
    int listening = bound(SOCK_STREAM, 4001);
    listen(listening, 1);
    for (int k = 0; k < 2; k++) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        int fd = accept(listening, (struct sockaddr *)&from, &size);
        char data[100];
        ssize_t n = read(fd, data, sizeof data);
        got("request", n, data, NULL);
        if (write(fd, data, (size_t)n) != n) perror("write");
        close(fd);
    }
}

static void calls(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in there = at(5001);
    char data[100];
    static char long_one[150000];
    if (connect(fd, ADDRESS(there))) perror("connect");
    if (write(fd, "hello", 5) != 5) perror("write");
    got("answer", read(fd, data, sizeof data), data, NULL);
    for (size_t sent = 0; sent < sizeof long_one;) sent += (size_t)send(fd, long_one + sent, sizeof long_one - sent, 0);
}

static void fills(void) { /* never reads */
    bound(SOCK_DGRAM, 4000);
    for (;;) pause();
}

static void floods(void) { /* sends in a loop without a pause */
    int fd = bound(SOCK_DGRAM, 4000);
    struct sockaddr_in there = at(5000);
    static char data[60000];
    for (;;) sendto(fd, data, sizeof data, 0, ADDRESS(there));
}

int main(int count, char **given) {
    static const struct {
        const char *name;
        void (*function)(void);
    } subjects[] = {{"receives", receives}, {"waits", waits}, {"early", early}, {"sends", sends}, {"serves", serves},
                    {"calls", calls}, {"fills", fills}, {"floods", floods}};
    for (size_t k = 0; count > 1 && k < sizeof subjects / sizeof *subjects; k++)
        if (!strcmp(subjects[k].name, given[1])) return subjects[k].function(), 0;
    return 2;
}
