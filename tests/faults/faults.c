/* Makes the disk and the clock of a process misbehave as a file says: a shared object for LD_PRELOAD.
 *
 * FAULTS_FILE holds six numbers of 64 bits, which the test changes while the process runs: the errno by which writing to
 * files below FAULTS_DIR fails (0 for none), the milliseconds that each sync of them takes longer, the seconds that the
 * wall clock is ahead, the errnos by which syncing those files fails, and by which syncing the one that sled calls `db`
 * does, while writing goes on, and the errno by which writing to what sled writes anew when it opens fails, as where a full
 * disk takes what is written over and nothing else. A sync that fails so has brought nothing to the disk. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct faults {
    volatile int64_t write_errno;
    volatile int64_t sync_ms;
    volatile int64_t clock_s;
    volatile int64_t sync_errno;
    volatile int64_t tree_sync_errno;
    volatile int64_t snapshot_errno;
};

static const struct faults none;
static const struct faults *faults = &none;
static const char *folder = "";

/* Once: the process may be kept from the file later. */
__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("FAULTS_FILE");
    if (getenv("FAULTS_DIR")) folder = getenv("FAULTS_DIR");
    int fd = file ? syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *there = mmap(0, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    if (there != MAP_FAILED) faults = there;
    syscall(SYS_close, fd);
}

/* The last part of a file's path, if it is below the folder. */
static const char *below(int fd) {
    static __thread char path[4096];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0) return 0;
    path[len] = 0;
    const char *last = strrchr(path, '/');
    return *folder && last && !strncmp(path, folder, strlen(folder)) ? last + 1 : 0;
}

static int fails_by(int64_t number, int fd, const char *beginning) {
    const char *name = number ? below(fd) : 0;
    if (!name || strncmp(name, beginning, strlen(beginning))) return 0;
    errno = number;
    return 1;
}

static int fails(int fd) { return fails_by(faults->write_errno, fd, "") || fails_by(faults->snapshot_errno, fd, "snap."); }

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset) {
    return fails(fd) ? -1 : syscall(SYS_pwrite64, fd, data, len, offset);
}
ssize_t pwrite(int fd, const void *data, size_t len, off_t offset) { return pwrite64(fd, data, len, offset); }

ssize_t write(int fd, const void *data, size_t len) { return fails(fd) ? -1 : syscall(SYS_write, fd, data, len); }

static int synced(long call, int fd) {
    if (faults->sync_ms && below(fd)) usleep(faults->sync_ms * 1000);
    if (fails(fd) || fails_by(faults->sync_errno, fd, "") || fails_by(faults->tree_sync_errno, fd, "db")) return -1;
    return syscall(call, fd);
}
int fsync(int fd) { return synced(SYS_fsync, fd); }
int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    int told = syscall(SYS_clock_gettime, clock, time);
    if (!told && clock == CLOCK_REALTIME) time->tv_sec += faults->clock_s;
    return told;
}
