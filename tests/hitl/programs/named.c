/* What virtual time cannot replace, or what ends a program:  named SUBJECT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

static int is(const char *a, const char *b) { return !strcmp(a, b); }

int main(int count, char **given) {
    const char *what = count > 1 ? given[1] : "";
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(5009)};
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
#if defined(__x86_64__)
    if (is(what, "masked")) { /* a thread that blocks all signals */
        sigset_t set;
        sigfillset(&set), pthread_sigmask(SIG_SETMASK, &set, NULL), sigprocmask(SIG_BLOCK, &set, NULL);
        what = "rdtsc";
    }
    if (is(what, "rdtsc")) {
        unsigned cpu;
        uint64_t a = __rdtsc();
        usleep(1000);
        uint64_t b = __rdtscp(&cpu);
        printf("%lld\n", (long long)(b - a) / 1000);
    }
    if (is(what, "direct")) {
        struct timespec t;
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clock_gettime), "D"(CLOCK_MONOTONIC), "S"(&t) : "rcx", "r11", "memory");
        printf("%ld %lld\n", result, (long long)t.tv_sec);
        t = (struct timespec){0, 5000000};
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_nanosleep), "D"(&t), "S"(NULL) : "rcx", "r11", "memory");
        clock_gettime(CLOCK_MONOTONIC, &t);
        printf("%ld %ld\n", result, t.tv_nsec / 1000000);
    }
#endif
    if (is(what, "bind")) bind(socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr *)&there, sizeof there);
    if (is(what, "connect")) connect(socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr *)&there, sizeof there);
    if (is(what, "alarm")) alarm(1000);
    if (is(what, "setitimer")) setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {1000, 0}}, NULL);
    if (is(what, "timer_create")) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_NONE};
        timer_create(CLOCK_MONOTONIC, &event, &timer);
    }
    if (is(what, "fork") && !fork()) usleep(1000), _exit(0);
    if (is(what, "system") && system("exit 3") != 3 << 8) printf("system failed\n");
    if (is(what, "popen")) {
        char text[10] = "";
        FILE *file = popen("date +%Y", "r");
        if (!fgets(text, sizeof text, file) || atoi(text) < 2020) printf("popen failed\n");
        pclose(file);
    }
    if (is(what, "exec-late")) usleep(2000), what = "exec";
    if (is(what, "exec")) { /* as a script does that starts the program */
        char *arguments[] = {given[0], "rdtsc", NULL};
        execvp("/no/such/program", arguments);
        execv(given[0], arguments);
    }
    if (is(what, "refused-late")) { /* after more notes than have a place */
        usleep(2000);
        bind(socket(AF_INET, SOCK_DGRAM, 0), (struct sockaddr *)&there, sizeof there);
    }
    if (is(what, "stdio")) { /* functions of the C library that do not call sendto() */
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in declared = there;
        declared.sin_port = htons(5001);
        connect(fd, (struct sockaddr *)&declared, sizeof declared);
        dprintf(fd, "hello");
    }
    if (is(what, "last-thread")) pthread_exit(NULL);
    if (is(what, "execs") && !vfork()) execlp("true", "true", NULL);
    if (is(what, "getpid")) printf("%d\n", getpid() > 0);
    if (is(what, "exit")) return 7;
    if (is(what, "abort")) printf("last words\n"), abort();
    if (is(what, "crash")) *(volatile int *)(uintptr_t)count = 1;
    if (is(what, "handler")) signal(SIGSEGV, SIG_DFL), raise(SIGSEGV);
    if (is(what, "loop"))
        for (volatile int k = 0;; k++);
    if (is(what, "orphan")) { /* a child outlives the program */
        if (!fork())
            for (;;) pause();
        _exit(4);
    }
    if (is(what, "close") || is(what, "random") || is(what, "report")) { /* damages its connection */
        usleep(1000);
        int fd = atoi(strstr(getenv("RTSIM_VIRTUAL_TIME"), "fd=") + 3);
        uint64_t state = (uint64_t)atoi(given[2]) + 1;
        static unsigned char data[1000000];
        for (size_t k = 0; k < sizeof data; k++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL;
            data[k] = (unsigned char)(state >> 56);
        }
        size_t size = sizeof data;
        if (is(what, "report")) { /* random bytes in the place of datagrams and notes */
            memcpy(data, "DONE", 4), memset(data + 4, 0, 24);
            data[4] = (unsigned char)(data[30] % 4), data[8] = (unsigned char)(data[31] % 4);
            data[20] = 10, size = 28 + (size_t)(data[24] = data[32] % 100);
            if (data[33] & 1) memset(data + 28, 0, 40);
            memset(data + 16, 0x01, 4); /* 16843009 * 2^32 ns, beyond each grant */
        }
        if (is(what, "close")) syscall(SYS_close, fd);
        else for (size_t at = 0; at < size;) {
            ssize_t n = syscall(SYS_write, fd, data + at, size - at);
            if (n <= 0) break;
            at += (size_t)n;
        }
        for (;;) syscall(SYS_pause);
    }
    usleep(1000);
    return 0;
}
