// Processor time and wall time of a file system's calls, one kind of call after another.
//
//   host_ops [-t threads] [-n calls] [-d names] [-s] DIRECTORY
//
//   -t  threads, one on each processor from the first allowed one on (1)
//   -n  calls of each kind and thread (8000)
//   -d  names per directory (40: a directory of one block; 0: all names in one directory)
//   -s  the threads share their directories
//
// A line per kind: name, calls, processor time and wall time of one call in nanoseconds (mean over the threads), start
// and end of the kind on CLOCK_MONOTONIC in nanoseconds. measure.sh lays samples of `perf` into the kinds by these.
// A call that fails ends the program; a kind that the file system does not know is left out and says so.
//
// The names: f = file, m = directory, s = symbolic link, l = second name of f. Every kind finds what an earlier one left.
// Between kinds everything is synced, so that a kind begins with an empty transaction. Needs root (it drops caches).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, MOST_THREADS = 16, PER_FILE = 250 };

static const char *root;
static long threads = 1, calls = 8000, names = 40, shared;
static pthread_barrier_t together;

struct worker {
    long id, calls;
    pthread_t thread;
    int fd;                 // a file that stays open from call to call
    char a[512], b[512];    // paths of the call
    double cpu, wall;
};
static struct worker workers[MOST_THREADS];

static long long now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void must(long result, const char *what, const char *path) {
    if (result < 0) {
        fprintf(stderr, "host_ops: %s %s: %s\n", what, path, strerror(errno));
        exit(1);
    }
}

// The directory of name `i` in a thread's tree: 0 for most names, 1 for names that were moved, 2 for directories.
static int in_dir(char *out, const struct worker *w, int tree, long i) {
    long dir = names ? i / names : 0;
    return snprintf(out, 512, "%s/t%d.%ld.%ld", root, tree, shared ? 0 : w->id, dir);
}

static const char *path(char *out, const struct worker *w, int tree, char kind, long i) {
    int n = in_dir(out, w, tree, i);
    snprintf(out + n, 512 - n, "/%c%ld.%05ld", kind, w->id, i);
    return out;
}
#define A(tree, kind) path(w->a, w, tree, kind, i)
#define B(tree, kind) path(w->b, w, tree, kind, i)

// Opens the big file of call `i` (a new one each PER_FILE calls); such files lie outside the directories of the names.
static int big(struct worker *w, long i, const char *which) {
    if (i % PER_FILE == 0 || w->fd < 0) {
        if (w->fd >= 0)
            close(w->fd);
        snprintf(w->a, sizeof w->a, "%s/%s.%ld.%ld", root, which, w->id, i / PER_FILE);
        w->fd = open(w->a, O_CREAT | O_RDWR, 0644);
        must(w->fd, "open", w->a);
    }
    return w->fd;
}

static char page[256 * BLOCK];

static void op_getppid(struct worker *w, long i) { (void)w, (void)i; getppid(); }
static void op_mkdir(struct worker *w, long i) { must(mkdir(A(2, 'm'), 0755), "mkdir", w->a); }
static void op_rmdir(struct worker *w, long i) { must(rmdir(A(2, 'm')), "rmdir", w->a); }
static void op_symlink(struct worker *w, long i) { must(symlink("target", A(0, 's')), "symlink", w->a); }
static void op_stat(struct worker *w, long i) { struct stat s; must(stat(A(0, 'f'), &s), "stat", w->a); }
static void op_absent(struct worker *w, long i) {
    struct stat s;
    if (stat(A(0, 'x'), &s) == 0 || errno != ENOENT)
        must(-1, "stat", w->a);
}
static void op_create(struct worker *w, long i) {
    int f = open(A(0, 'f'), O_CREAT | O_EXCL | O_WRONLY, 0644);
    must(f, "create", w->a);
    close(f);
}
static void op_open(struct worker *w, long i) {
    int f = open(A(0, 'f'), O_RDWR);
    must(f, "open", w->a);
    close(f);
}
static void op_chmod(struct worker *w, long i) { must(chmod(A(0, 'f'), 0600), "chmod", w->a); }
static void op_chmod_one(struct worker *w, long k) {
    long i = 0;
    must(chmod(A(0, 'f'), k & 1 ? 0600 : 0640), "chmod", w->a);
}
// Every 16th file: another block of the inode table each time, and each block once.
static void op_stat_far(struct worker *w, long k) { op_stat(w, k * 16); }
static void op_chmod_far(struct worker *w, long k) { long i = k * 16; must(chmod(A(0, 'f'), 0640), "chmod", w->a); }
static void op_utimes(struct worker *w, long i) {
    struct timespec t[2] = {{1000000000 + i, 1}, {1000000000 + i, 2}};
    must(utimensat(AT_FDCWD, A(0, 'f'), t, 0), "utimens", w->a);
}
static void op_setxattr(struct worker *w, long i) {
    must(setxattr(A(0, 'f'), "user.a", "value", 5, 0), "setxattr", w->a);
}
static void op_link(struct worker *w, long i) { must(link(A(0, 'f'), B(0, 'l')), "link", w->b); }
static void op_unlink_second(struct worker *w, long i) { must(unlink(A(0, 'l')), "unlink", w->a); }
static void op_unlink_symlink(struct worker *w, long i) { must(unlink(A(0, 's')), "unlink", w->a); }
static void op_rename(struct worker *w, long i) { must(rename(A(0, 'f'), B(0, 'g')), "rename", w->a); }
static void op_rename_across(struct worker *w, long i) { must(rename(A(0, 'g'), B(1, 'f')), "rename", w->a); }
static void op_unlink_empty(struct worker *w, long i) { must(unlink(A(1, 'f')), "unlink", w->a); }
static void op_unlink_block(struct worker *w, long i) { must(unlink(A(0, 'f')), "unlink", w->a); }
static void op_truncate(struct worker *w, long i) { must(truncate(A(0, 'f'), 0), "truncate", w->a); }
static void op_append(struct worker *w, long i) {
    must(pwrite(big(w, i, "data"), page, BLOCK, i % PER_FILE * BLOCK), "write", "");
}
static void op_read(struct worker *w, long i) {
    must(pread(big(w, i, "data"), page + w->id * BLOCK, BLOCK, i % PER_FILE * BLOCK), "read", "");
}
// An extent of its own each time: every second block of the file.
static void op_extent(struct worker *w, long i) {
    must(fallocate(big(w, i, "holes"), 0, i % PER_FILE * 2 * BLOCK, BLOCK), "fallocate", "");
}
static void op_punch(struct worker *w, long i) {
    int how = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    must(fallocate(big(w, i, "holes"), how, i % PER_FILE * 2 * BLOCK, BLOCK), "punch", "");
}
static void fallocate_file(struct worker *w, long i, long blocks) {
    int f = open(A(0, 'f'), O_RDWR);
    must(f, "open", w->a);
    must(fallocate(f, 0, 0, blocks * BLOCK), "fallocate", w->a);
    close(f);
}
static void op_falloc_1(struct worker *w, long i) { fallocate_file(w, i, 1); }
static void op_falloc_64(struct worker *w, long i) { fallocate_file(w, i, 64); }
// Puts a dirty page into each file; the kind after it writes them out.
static void op_dirty(struct worker *w, long i) {
    int f = open(A(0, 'f'), O_RDWR);
    must(f, "open", w->a);
    must(pwrite(f, page, BLOCK, 0), "write", w->a);
    close(f);
}
static void op_writeback(struct worker *w, long i) {
    int f = open(A(0, 'f'), O_RDWR);
    must(f, "open", w->a);
    must(sync_file_range(f, 0, BLOCK, SYNC_FILE_RANGE_WRITE), "sync_file_range", w->a);
    close(f);
}

enum { PLAIN = 0, KEEP = 1, DROP = 2, FEW = 4, MAY = 8, ROUNDS = 8 };
// KEEP: no sync before it. DROP: dentries and inodes are dropped before it. FEW: a sixteenth of the calls, ROUNDS
// times.
// MAY: the file system may not know it.
static const struct kind {
    const char *name;
    void (*op)(struct worker *, long);
    int how;
} kinds[] = {
    {"getppid", op_getppid, KEEP},
    {"mkdir", op_mkdir, PLAIN},
    {"create", op_create, PLAIN},
    {"stat", op_stat, KEEP},
    {"open", op_open, KEEP},
    {"lookup absent", op_absent, PLAIN},
    {"stat uncached", op_stat, DROP},
    {"chmod", op_chmod, PLAIN},
    {"chmod one", op_chmod_one, PLAIN},
    {"stat far", op_stat_far, FEW},
    {"chmod far", op_chmod_far, FEW},
    {"utimes", op_utimes, PLAIN},
    {"setxattr", op_setxattr, MAY},
    {"symlink", op_symlink, PLAIN},
    {"unlink symlink", op_unlink_symlink, PLAIN},
    {"link", op_link, PLAIN},
    {"unlink second", op_unlink_second, PLAIN},
    {"rename", op_rename, PLAIN},
    {"rename across", op_rename_across, PLAIN},
    {"unlink empty", op_unlink_empty, PLAIN},
    {"rmdir", op_rmdir, PLAIN},
    {"create again", op_create, PLAIN},
    {"fallocate 1", op_falloc_1, PLAIN},
    {"truncate 1", op_truncate, PLAIN},
    {"fallocate 64", op_falloc_64, PLAIN},
    {"unlink 64", op_unlink_block, PLAIN},
    // New files: ext4 writes one that was truncated out at its close.
    {"create third", op_create, PLAIN},
    {"write 1", op_dirty, PLAIN},
    {"writeback 1", op_writeback, KEEP},
    {"unlink 1", op_unlink_block, PLAIN},
    {"append", op_append, PLAIN},
    {"overwrite", op_append, PLAIN},
    {"read", op_read, PLAIN},
    {"extent", op_extent, MAY},
    {"punch", op_punch, MAY},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

// Whether the file system knows the calls of a kind that may fail.
static int known(const struct kind *kind) {
    char probe[512];
    snprintf(probe, sizeof probe, "%s/probe", root);
    int f = open(probe, O_CREAT | O_RDWR, 0600), bad;
    must(f, "open", probe);
    if (kind->op == op_setxattr)
        bad = fsetxattr(f, "user.a", "v", 1, 0);
    else
        bad = fallocate(f, 0, 0, BLOCK) || fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BLOCK);
    close(f);
    unlink(probe);
    return !bad;
}

static void prepare(const struct kind *kind) {
    if (!(kind->how & KEEP)) {
        int dir = open(root, O_RDONLY);
        must(dir, "open", root);
        must(syncfs(dir), "syncfs", root);
        close(dir);
    }
    if (kind->how & DROP) {
        int f = open("/proc/sys/vm/drop_caches", O_WRONLY);
        must(f, "open", "/proc/sys/vm/drop_caches");
        must(write(f, "2", 1), "write", "/proc/sys/vm/drop_caches");
        close(f);
    }
}

static int skip;
static long long began;

static void *work(void *arg) {
    struct worker *w = arg;
    cpu_set_t allowed, mine;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&mine);
    for (long cpu = 0, nth = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && nth++ == w->id % CPU_COUNT(&allowed))
            CPU_SET(cpu, &mine);
    must(sched_setaffinity(0, sizeof mine, &mine), "sched_setaffinity", "");
    for (long k = 0, round = 0; k < KINDS; round + 1 < (kinds[k].how & FEW ? ROUNDS : 1) ? round++ : (round = 0, k++)) {
        const struct kind *kind = kinds + k;
        long n = kind->how & FEW ? calls / 16 : calls;
        if (w->id == 0) {
            skip = kind->how & MAY && !known(kind);
            prepare(kind);
        }
        pthread_barrier_wait(&together);
        if (skip) {
            if (w->id == 0)
                fprintf(stderr, "host_ops: %s is not known here\n", kind->name);
            pthread_barrier_wait(&together);
            continue;
        }
        if (w->id == 0)
            began = now(CLOCK_MONOTONIC);
        long long cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
        for (long i = 0; i < n; i++)
            kind->op(w, i);
        w->cpu = (double)(now(CLOCK_THREAD_CPUTIME_ID) - cpu) / n;
        w->wall = (double)(now(CLOCK_MONOTONIC) - wall) / n;
        if (w->fd >= 0)
            close(w->fd);
        w->fd = -1;
        pthread_barrier_wait(&together);
        if (w->id == 0) {
            double c = 0, t = 0;
            for (struct worker *one = workers; one < workers + threads; one++)
                c += one->cpu, t += one->wall;
            printf("%s\t%ld\t%.0f\t%.0f\t%lld\t%lld\n", kind->name, n, c / threads, t / threads, began, now(CLOCK_MONOTONIC));
            fflush(stdout);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    for (int o; (o = getopt(argc, argv, "t:n:d:s")) != -1;) {
        switch (o) {
        case 't': threads = atol(optarg); break;
        case 'n': calls = atol(optarg); break;
        case 'd': names = atol(optarg); break;
        case 's': shared = 1; break;
        default: goto usage;
        }
    }
    if (optind + 1 != argc || threads < 1 || threads > MOST_THREADS || calls < 16 || names < 0)
        goto usage;
    root = argv[optind];
    if (strlen(root) > 300)
        goto usage;
    pthread_barrier_init(&together, 0, threads);
    for (long id = 0; id < (shared ? 1 : threads); id++)
        for (int tree = 0; tree < 3; tree++)
            for (long i = 0; i < calls; i += names ? names : calls) {
                struct worker w = {.id = id};
                in_dir(w.a, &w, tree, i);
                must(mkdir(w.a, 0755), "mkdir", w.a);
            }
    for (long id = 0; id < threads; id++) {
        workers[id].id = id;
        workers[id].fd = -1;
        pthread_create(&workers[id].thread, 0, work, &workers[id]);
    }
    for (long id = 0; id < threads; id++)
        pthread_join(workers[id].thread, 0);
    return 0;
usage:
    fprintf(stderr, "usage: host_ops [-t threads] [-n calls] [-d names per directory, 0: all] [-s] DIRECTORY\n");
    return 2;
}
