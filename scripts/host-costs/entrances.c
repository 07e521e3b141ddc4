/* What it costs a program to reach a file system that is not behind a system call: medians of 2,000 rounds of 1,000.
 *
 *   library_call   a call of a preloaded library instead of libc: through a pointer that the dynamic linker filled, with a look at
 *                  the descriptor's entry in a table
 *   command_build  a command of 64 bytes written to memory that a drive reads, with the store that makes it visible
 *   admission      what a drive does with a command before it works on it: copies it out of the process's memory, compares the
 *                  sender with who owns that memory, looks up the descriptor, and puts it into the file's queue and takes it out
 *   handover       a word on its way from one processor to another that polls it: half of a round trip
 *   syscall        getppid, for comparison: host.costs.syscall is this row on the machine of docs/HOST_COSTS.md
 *
 * cc -O2 -pthread -o entrances entrances.c && ./entrances
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct entry { int kind; void *file; };
struct command { _Alignas(64) uint8_t op, flags; uint16_t cpu; int32_t fd; uint32_t seq, status; uint64_t offset, len, addr, result, tsc; };

static struct entry table[1024];
static struct command ring[64];

__attribute__((noinline)) static long hooked(int fd, const void *buf, size_t n) {
    if ((unsigned)fd >= 1024 || table[fd].kind == 0)
        return -1;
    __asm__ volatile("" ::"r"(buf), "r"(n), "r"(table[fd].file) : "memory");
    return (long)n;
}

static long (*volatile entered)(int, const void *, size_t) = hooked;

struct owner { uint32_t pid, uid, gid, epoch; };
struct file { struct command queue[64]; uint32_t head, tail; };
static struct owner owners[40], snapshot;
static struct file files[64];
static volatile uint32_t served;

__attribute__((noinline)) static int admit(const struct command *sent, unsigned cpu) {
    struct command c = *sent;
    __asm__ volatile("" ::: "memory");
    if (owners[cpu].pid != snapshot.pid || (unsigned)c.fd >= 1024 || table[c.fd].kind == 0)
        return -1;
    struct file *f = &files[c.fd & 63];
    c.cpu = (uint16_t)cpu;
    f->queue[f->tail++ & 63] = c;
    __asm__ volatile("" ::: "memory");
    served += f->queue[f->head++ & 63].seq;
    return 0;
}

static _Alignas(64) uint32_t there;
static _Alignas(64) uint32_t back;

static void *echo(void *unused) {
    for (uint32_t seen = 0;;) {
        uint32_t n = __atomic_load_n(&there, __ATOMIC_ACQUIRE);
        if (n != seen)
            __atomic_store_n(&back, seen = n, __ATOMIC_RELEASE);
    }
    return unused;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double d = *(const double *)a - *(const double *)b;
    return (d > 0) - (d < 0);
}

#define ROUNDS 2000
#define MEASURE(name, body)                                          \
    do {                                                             \
        static double t[ROUNDS];                                     \
        for (int r = 0; r < ROUNDS; r++) {                           \
            uint64_t from = now();                                   \
            for (int i = 0; i < 1000; i++) { body; }                 \
            t[r] = (double)(now() - from) / 1000;                    \
        }                                                            \
        qsort(t, ROUNDS, sizeof t[0], by_size);                      \
        printf("%-14s %6.1f ns (p10 %.1f, p90 %.1f)\n", name, t[ROUNDS / 2], t[ROUNDS / 10], t[ROUNDS * 9 / 10]); \
    } while (0)

int main(void) {
    static char buf[4096];
    for (int i = 0; i < 1024; i++)
        table[i] = (struct entry){1, &table[i]};
    MEASURE("library_call", entered(i & 1023, buf, sizeof buf));
    MEASURE("command_build", {
        struct command *c = &ring[i & 63];
        c->op = 1; c->flags = 0; c->cpu = 0; c->fd = i; c->status = 0; c->offset = (uint64_t)i * 4096;
        c->len = 4096; c->addr = (uint64_t)(uintptr_t)buf; c->result = 0; c->tsc = __builtin_ia32_rdtsc();
        __atomic_store_n(&c->seq, (uint32_t)i, __ATOMIC_RELEASE);
    });
    MEASURE("admission", {
        ring[i & 63].fd = i & 1023;
        snapshot.pid = owners[i % 40].pid;
        admit(&ring[i & 63], (unsigned)i % 40);
    });
    pthread_t other;
    pthread_create(&other, NULL, echo, NULL);
    uint32_t sent = 0;
    MEASURE("handover x 2", {
        __atomic_store_n(&there, ++sent, __ATOMIC_RELEASE);
        while (__atomic_load_n(&back, __ATOMIC_ACQUIRE) != sent) {}
    });
    MEASURE("syscall", syscall(SYS_getppid));
    return 0;
}
