/* Records, in one order, what a process does to the files below PCUT_DIR: a shared object for LD_PRELOAD.
 *
 * Each record is a header and then `path_len` bytes of path and `len` bytes of data. The trace PCUT_TRACE is appended to,
 * so that others can append records of their own between: the harness does, for what the process acknowledged.
 * The replay stands in cuts.rs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum op { CREATE = 1, WRITE = 2, TRUNCATE = 3, SYNC_BEGINS = 4, SYNC_ENDED = 5, RENAME = 6, UNLINK = 7, MKDIR = 8, WRITE_THROUGH = 11 };

struct header {
    uint32_t op;
    uint32_t path_len;
    uint64_t inode;
    uint64_t offset;
    uint64_t len;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static size_t folder_len;
static int trace = -1;
static uint64_t syncs;

static void emit(enum op op, uint64_t inode, uint64_t offset, const char *path, const void *data, uint64_t len) {
    struct header header = {op, path ? strlen(path) : 0, inode, offset, len};
    struct iovec parts[3] = {{&header, sizeof header}, {(void *)path, header.path_len}, {(void *)data, data ? len : 0}};
    /* What cannot be recorded would be taken for never done. */
    if (trace >= 0 && syscall(SYS_writev, trace, parts, 3) < 0) abort();
}

static void begin(void) {
    pthread_mutex_lock(&lock);
    if (trace >= 0) return;
    const char *file = getenv("PCUT_TRACE");
    folder = getenv("PCUT_DIR");
    folder_len = folder ? strlen(folder) : 0;
    if (file) trace = syscall(SYS_openat, AT_FDCWD, file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
}

static void end(void) { pthread_mutex_unlock(&lock); }

static int below(const char *path) { return folder && strncmp(path, folder, folder_len) == 0; }

/* Whether a descriptor is of a file below the folder; its path. */
static int tracked(int fd, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, 4095);
    if (len <= 0) return 0;
    path[len] = 0;
    return below(path);
}

static uint64_t inode_of(int fd) {
    struct stat stat;
    return fstat(fd, &stat) ? 0 : stat.st_ino;
}

static enum op kind_of_write(int fd) { return fcntl(fd, F_GETFL) & O_DSYNC ? WRITE_THROUGH : WRITE; }

static int opened(int fd, int flags) {
    char path[4096];
    struct stat stat;
    if (fd < 0 || !(flags & (O_CREAT | O_TRUNC))) return fd;
    begin();
    if (tracked(fd, path) && !fstat(fd, &stat) && S_ISREG(stat.st_mode)) {
        emit(CREATE, stat.st_ino, 0, path, 0, 0);
        if (flags & O_TRUNC) emit(TRUNCATE, stat.st_ino, 0, 0, 0, 0);
    }
    end();
    return fd;
}

#define MODE(flags) \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, int); \
    va_end(rest)

int open(const char *path, int flags, ...) {
    MODE(flags);
    return opened(syscall(SYS_openat, AT_FDCWD, path, flags, mode), flags);
}
int open64(const char *path, int flags, ...) {
    MODE(flags);
    return opened(syscall(SYS_openat, AT_FDCWD, path, flags, mode), flags);
}
int openat(int at, const char *path, int flags, ...) {
    MODE(flags);
    return opened(syscall(SYS_openat, at, path, flags, mode), flags);
}
int openat64(int at, const char *path, int flags, ...) {
    MODE(flags);
    return opened(syscall(SYS_openat, at, path, flags, mode), flags);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset) {
    char path[4096];
    begin();
    int ours = tracked(fd, path);
    long written = syscall(SYS_pwrite64, fd, data, len, offset);
    if (ours && written > 0) emit(kind_of_write(fd), inode_of(fd), offset, 0, data, written);
    end();
    return written;
}
ssize_t pwrite(int fd, const void *data, size_t len, off_t offset) { return pwrite64(fd, data, len, offset); }

ssize_t write(int fd, const void *data, size_t len) {
    char path[4096];
    struct stat stat;
    begin();
    int ours = tracked(fd, path);
    off_t offset = 0;
    if (ours && fcntl(fd, F_GETFL) & O_APPEND)
        offset = fstat(fd, &stat) ? 0 : stat.st_size;
    else if (ours)
        offset = lseek(fd, 0, SEEK_CUR);
    long written = syscall(SYS_write, fd, data, len);
    if (ours && written > 0) emit(kind_of_write(fd), inode_of(fd), offset, 0, data, written);
    end();
    return written;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        if (!parts[i].iov_len) continue;
        ssize_t written = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (written < 0) return total ? total : written;
        total += written;
        if ((size_t)written < parts[i].iov_len) break;
    }
    return total;
}

int ftruncate64(int fd, off64_t len) {
    char path[4096];
    begin();
    int ours = tracked(fd, path);
    int failed = syscall(SYS_ftruncate, fd, len);
    if (ours && !failed) emit(TRUNCATE, inode_of(fd), len, 0, 0, 0);
    end();
    return failed;
}
int ftruncate(int fd, off_t len) { return ftruncate64(fd, len); }

static int synced(int fd, int number) {
    char path[4096];
    begin();
    int ours = tracked(fd, path);
    struct stat stat;
    /* Of a folder the path is told: names in it are durable once it is synced. */
    int is_folder = ours && !fstat(fd, &stat) && S_ISDIR(stat.st_mode);
    uint64_t sync = ++syncs, inode = ours ? inode_of(fd) : 0;
    if (ours) emit(SYNC_BEGINS, inode, sync, is_folder ? path : 0, 0, 0);
    end();
    int failed = syscall(number, fd);
    begin();
    if (ours && !failed) emit(SYNC_ENDED, inode, sync, 0, 0, 0);
    end();
    return failed;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int rename(const char *from, const char *to) {
    begin();
    int failed = syscall(SYS_rename, from, to);
    if (!failed && below(from)) {
        char both[8192];
        snprintf(both, sizeof both, "%s\n%s", from, to);
        emit(RENAME, 0, 0, both, 0, 0);
    }
    end();
    return failed;
}

int unlink(const char *path) {
    begin();
    int failed = syscall(SYS_unlink, path);
    if (!failed && below(path)) emit(UNLINK, 0, 0, path, 0, 0);
    end();
    return failed;
}

int unlinkat(int at, const char *path, int flags) {
    char whole[8192], parent[4096] = "", link[64];
    if (path[0] == '/')
        snprintf(whole, sizeof whole, "%s", path);
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t len = readlink(link, parent, sizeof parent - 1);
        parent[len > 0 ? len : 0] = 0;
        snprintf(whole, sizeof whole, "%s/%s", parent, path);
    }
    begin();
    int failed = syscall(SYS_unlinkat, at, path, flags);
    if (!failed && below(whole)) emit(UNLINK, 0, 0, whole, 0, 0);
    end();
    return failed;
}

int mkdir(const char *path, mode_t mode) {
    begin();
    int failed = syscall(SYS_mkdir, path, mode);
    if (!failed && below(path)) emit(MKDIR, 0, 0, path, 0, 0);
    end();
    return failed;
}
