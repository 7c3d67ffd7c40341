/* Four threads that sleep, wait for conditions and timers, and send, by the numbers of a seed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, STEPS = 25 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int items, udp, ends[2];
static uint64_t seed;

static int64_t note(int thread, int what, long long value) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(5000)};
    char text[100];
    int size = snprintf(text, sizeof text, "%d %d %lld %lld.%09ld", thread, what, value, (long long)t.tv_sec, t.tv_nsec);
    sendto(udp, text, (size_t)size, 0, (struct sockaddr *)&there, sizeof there);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *works(void *given) {
    int me = (int)(intptr_t)given, fd = timerfd_create(CLOCK_MONOTONIC, 0);
    uint64_t state = seed * 4 + (uint64_t)me + 1, count;
    char data[100];
    for (int k = 0; k < STEPS; k++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        unsigned long us = state >> 40 & 0xfff;
        int what = (int)(state >> 56) % 7, result = 0;
        struct timespec t;
        struct itimerspec timer = {{0, 0}, {0, (long)us * 1000 + 1}};
        switch (what) {
        case 0: usleep((useconds_t)us); break;
        case 1: /* wait for an item, at most for a time */
            pthread_mutex_lock(&mutex);
            clock_gettime(CLOCK_REALTIME, &t);
            t.tv_nsec += (long)us * 1000;
            if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
            while (!items && !result) result = pthread_cond_timedwait(&condition, &mutex, &t);
            if (items) items--;
            pthread_mutex_unlock(&mutex);
            break;
        case 2: /* bring an item, and hold the mutex */
            pthread_mutex_lock(&mutex);
            items++;
            if (us & 1) usleep((useconds_t)us / 4);
            us & 2 ? pthread_cond_signal(&condition) : pthread_cond_broadcast(&condition);
            pthread_mutex_unlock(&mutex);
            break;
        case 3:
            timerfd_settime(fd, 0, &timer, NULL);
            result = (int)read(fd, &count, sizeof count);
            break;
        case 4: { /* wait for a pipe or a datagram */
            struct pollfd files[2] = {{udp, POLLIN, 0}, {ends[0], POLLIN, 0}};
            result = poll(files, 2, (int)us / 500);
            if (files[0].revents) result = 10 + (int)recv(udp, data, sizeof data, MSG_DONTWAIT);
            if (files[1].revents && me & 1) result += 100 * (int)read(ends[0], data, 1);
            break;
        }
        case 5: dprintf(ends[1], "x"); break; /* written by the C library itself */
        case 6: sched_yield(); break;
        }
        note(me, what, result);
    }
    close(fd);
    return NULL;
}

int main(int count, char **given) {
    pthread_t threads[THREADS];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(4000)};
    seed = count > 1 ? strtoull(given[1], NULL, 10) : 0;
    udp = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(udp, (struct sockaddr *)&here, sizeof here) || pipe(ends)) return 1;
    for (intptr_t k = 0; k < THREADS; k++) pthread_create(&threads[k], NULL, works, (void *)k);
    for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
    note(9, 0, 0);
    return 0;
}
