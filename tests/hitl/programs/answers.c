/* Answers each sample (time, value) with a reply:  answers MODE [NUMBER] */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int bound(int port) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&here, sizeof here)) exit(1);
    return fd;
}

int main(int count, char **given) {
    const char *mode = count > 1 ? given[1] : "";
    int number = count > 2 ? atoi(given[2]) : 0;
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(5000)};
    struct pollfd files[2] = {{bound(4000), POLLIN, 0}, {bound(4001), POLLIN, 0}};
    struct { double time, value; } sample;
    struct { double twice, time, clock, radio, count; } reply = {0};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    printf("mode %s\n", mode);
    if (!strcmp(mode, "asks") && !getpid()) return 1;
    for (;;) {
        poll(files, 2, -1);
        double radio;
        if (files[1].revents && recv(files[1].fd, &radio, sizeof radio, 0) == sizeof radio) reply.radio += radio;
        if (!files[0].revents || recv(files[0].fd, &sample, sizeof sample, 0) != sizeof sample) continue;
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        reply.count++, reply.twice = 2 * sample.value, reply.time = sample.time;
        reply.clock = (double)(t.tv_sec - 1) + (double)t.tv_nsec * 1e-9;
        if (!strcmp(mode, "dies") && reply.count > number) return 3;
        if (!strcmp(mode, "hangs") && reply.count > number)
            for (;;) sample.value += 1;
        if (!strcmp(mode, "silent") && reply.count > number) continue;
        if (!strcmp(mode, "slow")) usleep((useconds_t)number);
        if (!strcmp(mode, "slow-once") && reply.count == 3) usleep((useconds_t)number);
        if (!strcmp(mode, "short")) sendto(files[0].fd, "abc", 3, 0, (struct sockaddr *)&there, sizeof there);
        sendto(files[0].fd, &reply, sizeof reply, 0, (struct sockaddr *)&there, sizeof there);
        if (strcmp(mode, "again")) continue;
        usleep((useconds_t)number), reply.count++;
        sendto(files[0].fd, &reply, sizeof reply, 0, (struct sockaddr *)&there, sizeof there);
    }
}
