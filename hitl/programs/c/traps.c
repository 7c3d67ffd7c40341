/* Direct system calls and the time stamp counter: both raise a signal. */
#include "virtual_time.h"

/* -- direct system calls and the time stamp counter: both raise a signal */

static struct sigaction of_program[2]; /* for SIGSEGV and SIGSYS */

static struct sigaction *kept_action(int number) {
    return number == SIGSEGV ? &of_program[0] : number == SIGSYS ? &of_program[1] : NULL;
}

EXPORT int sigaction(int number, const struct sigaction *restrict action, struct sigaction *restrict old) {
    struct sigaction *kept = state == 2 ? kept_action(number) : NULL;
    if (!kept) return REAL(sigaction)(number, action, old);
    if (old) *old = *kept;
    if (action) *kept = *action;
    return 0;
}

EXPORT void (*signal(int number, void (*handler)(int)))(int) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
    return sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}

/* A trap whose signal is blocked would end the program. */
static const sigset_t *without_own(int how, const sigset_t *set, sigset_t *room) {
    if (state != 2 || !set || how == SIG_UNBLOCK) return set;
    *room = *set;
    sigdelset(room, SIGSEGV), sigdelset(room, SIGSYS);
    return room;
}

EXPORT int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old) {
    sigset_t room;
    return REAL(pthread_sigmask)(how, without_own(how, set, &room), old);
}

EXPORT int sigprocmask(int how, const sigset_t *restrict set, sigset_t *restrict old) {
    sigset_t room;
    return REAL(sigprocmask)(how, without_own(how, set, &room), old);
}

#if defined(__x86_64__)
static void place(const void *at, char *text, size_t size) {
    Dl_info found;
    if (!dladdr(at, &found) || !found.dli_fname) {
        snprintf(text, size, "%p", at);
        return;
    }
    const char *name = strrchr(found.dli_fname, '/');
    snprintf(text, size, "%s+0x%lx", name ? name + 1 : found.dli_fname,
             (unsigned long)((const char *)at - (const char *)found.dli_fbase));
}

static int time_stamp_counter(greg_t *registers, const siginfo_t *info) {
    const unsigned char *at = (const unsigned char *)registers[REG_RIP];
    if (info->si_code != SI_KERNEL || at[0] != 0x0f) return 0;
    int rdtscp = at[1] == 0x01 && at[2] == 0xf9;
    if (at[1] != 0x31 && !rdtscp) return 0;
    char text[100];
    place(at, text, sizeof text);
    note("time stamp counter (rdtsc) at %s", text);
    if (active()) look();
    uint64_t value = (uint64_t)(now_ns + BOOT);
    registers[REG_RAX] = (greg_t)(value & 0xffffffffu), registers[REG_RDX] = (greg_t)(value >> 32);
    if (rdtscp) registers[REG_RCX] = 0;
    registers[REG_RIP] += rdtscp ? 3 : 2;
    return 1;
}

static void trapped(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int kept = errno;
    const char *name = number == SIGSYS && info->si_code == 1 /* SYS_SECCOMP */ ? clock_call(info->si_syscall) : NULL;
    if (name) {
        long call = info->si_syscall, result;
        long a[6] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                     registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
        char text[100];
        place((const void *)registers[REG_RIP], text, sizeof text);
        note("direct system call %s at %s", name, text);
        if (!active() || !in_virtual_time(call, a, &result)) result = own(call, a[0], a[1], a[2], a[3]);
        registers[REG_RAX] = result;
    } else if (number != SIGSEGV || state != 2 || !time_stamp_counter(registers, info)) {
        struct sigaction *mine = kept_action(number);
        if (mine->sa_flags & SA_SIGINFO) mine->sa_sigaction(number, info, context);
        else if (mine->sa_handler != SIG_DFL && mine->sa_handler != SIG_IGN) mine->sa_handler(number);
        else if (info->si_code > 0) REAL(sigaction)(number, mine, NULL); /* it runs again, and ends the program */
        else if (mine->sa_handler == SIG_DFL) { /* sent by kill() or raise() */
            REAL(sigaction)(number, mine, NULL);
            SYS(SYS_tkill, SYS(SYS_gettid, 0, 0, 0, 0, 0, 0), number, 0, 0, 0, 0);
        }
    }
    errno = kept;
}

static void catch_signals(void) {
    struct sigaction action = {.sa_sigaction = trapped, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    REAL(sigaction)(SIGSYS, &action, &of_program[1]);
    REAL(sigaction)(SIGSEGV, &action, &of_program[0]);
}

void set_traps(void) {
    static const int calls[] = {SYS_clock_gettime, SYS_gettimeofday, SYS_time, SYS_nanosleep, SYS_clock_nanosleep};
    enum { CALLS = sizeof calls / sizeof *calls };
    struct sock_filter filter[CALLS + 9] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    int at = 1;
    for (int i = 0; i < CALLS; i++, at++)
        filter[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], CALLS - i, 0);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (int half = 0; half < 2; half++) {
        unsigned place = offsetof(struct seccomp_data, args[5]) + 4 * (unsigned)half;
        unsigned wanted = (unsigned)((uint64_t)COOKIE >> (32 * half));
        filter[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, place);
        filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, half ? 1 : 3);
    }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sock_fprog program = {(unsigned short)at, filter};
    catch_signals();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        note("not checked: direct system calls, because this system has no seccomp");
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
        note("not checked: the time stamp counter, because this system cannot trap it");
}

/* Trap the counter, or do not: a program that is started would inherit the trap, and the dynamic
 * linker reads the counter. */
void trap_counter(int yes) { prctl(PR_SET_TSC, yes ? PR_TSC_SIGSEGV : PR_TSC_ENABLE, 0, 0, 0); }

void without_traps(void) {
    trap_counter(0);
    catch_signals(); /* the filter of system calls stays in a process that the program starts */
}
#else
void set_traps(void) { note("not checked: direct system calls and the counter of the processor"); }
void trap_counter(int yes) { (void)yes; }
void without_traps(void) {}
#endif
