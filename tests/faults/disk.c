/* LD_PRELOAD: a disk that misbehaves below one folder, and a clock that jumps. Linux, glibc.

   FAULTS_DIR  the folder (absolute); nothing elsewhere is touched or seen
   FAULTS_CTL  a file of 16 bytes, mapped by every process, that says what happens now:
                 byte 0: 'f' the disk is full, 'r' it is read-only, 'e' every third write or sync fails (EIO), 0 all is well
                 bytes 8 to 15: a double, the seconds that the wall clock is off
   FAULTS_LOG  where set, a file to which every change below the folder is appended, with its bytes, in order. `powerloss.py` makes images of it.

   Only the calls that SQLite and Python make for such files are covered. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define FDS 4096

struct control {
    volatile char mode;
    char rest[7];
    volatile double clock;
};
struct head {
    uint32_t magic, op, path, data;
    int64_t offset;
};

static struct control none, *ctl = &none;
static char folder[PATH_MAX];
static size_t folder_len;
static int log_fd = -1;
static char *names[FDS]; /* the watched file behind a descriptor */
static unsigned count;   /* of writes while the disk fails now and then */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ({ static __typeof__(&name) f; if (!f) f = (__typeof__(&name))dlsym(RTLD_NEXT, #name); f; })

__attribute__((constructor)) static void begin(void) {
    const char *dir = getenv("FAULTS_DIR"), *file = getenv("FAULTS_CTL"), *log = getenv("FAULTS_LOG");
    if (file) {
        int fd = REAL(open64)(file, O_RDWR | O_CLOEXEC);
        void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
        if (at != MAP_FAILED) ctl = at;
        if (fd >= 0) REAL(close)(fd);
    }
    if (log) log_fd = REAL(open64)(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (dir && realpath(dir, folder)) folder_len = strlen(folder);
}

static int below(const char *path, char *whole) {
    char cwd[PATH_MAX];
    if (!folder_len || !path) return 0;
    if (path[0] == '/') strncpy(whole, path, PATH_MAX - 1), whole[PATH_MAX - 1] = 0;
    else if (!getcwd(cwd, sizeof cwd) || snprintf(whole, PATH_MAX, "%s/%s", cwd, path) >= PATH_MAX) return 0;
    return !strncmp(whole, folder, folder_len) && (whole[folder_len] == '/' || !whole[folder_len]);
}

static void note(char op, const char *path, int64_t offset, const void *data, size_t size) {
    if (log_fd < 0) return;
    struct head h = {0x7a11feed, (uint32_t)op, (uint32_t)strlen(path), (uint32_t)size, offset};
    struct iovec parts[3] = {{&h, sizeof h}, {(void *)path, h.path}, {(void *)data, size}};
    int kept = errno;
    if (writev(log_fd, parts, 3) < 0) abort(); /* a log with a hole would prove nothing */
    errno = kept;
}

static const char *watched(int fd) { return fd >= 0 && fd < FDS ? names[fd] : NULL; }

static int fails(void) { return ctl->mode == 'e' && __sync_add_and_fetch(&count, 1) % 3 == 0; }

/* the error that a change of a watched file meets now, 0 for none; `end` is where it would reach to, -1 where it adds nothing */
static int refusal(int fd, int64_t end) {
    struct stat st;
    if (ctl->mode == 'r') return EROFS;
    if (fails()) return EIO;
    if (ctl->mode == 'f' && end >= 0 && !fstat(fd, &st) && end > st.st_size) return ENOSPC;
    return 0;
}

static int opened(int fd, const char *path, int flags, int fresh) {
    if (fd < 0 || fd >= FDS) return fd;
    pthread_mutex_lock(&lock);
    free(names[fd]);
    names[fd] = path ? strdup(path) : NULL;
    pthread_mutex_unlock(&lock);
    if (path && fresh) note('c', path, 0, "", 0);
    if (path && !fresh && (flags & O_TRUNC)) note('t', path, 0, "", 0);
    return fd;
}

int open64(const char *path, int flags, ...) {
    char whole[PATH_MAX];
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (!below(path, whole)) return opened(REAL(open64)(path, flags, mode), NULL, 0, 0);
    int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (changes && ctl->mode == 'r' && (errno = EROFS)) return -1;
    int fresh = (flags & O_CREAT) && access(whole, F_OK) != 0;
    return opened(REAL(open64)(path, flags, mode), whole, flags, fresh);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(more, mode_t) : 0;
    va_end(more);
    return open64(path, flags, mode);
}

int close(int fd) {
    if (watched(fd)) {
        pthread_mutex_lock(&lock);
        free(names[fd]);
        names[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return REAL(close)(fd);
}

ssize_t write(int fd, const void *data, size_t size) {
    const char *name = watched(fd);
    if (!name) return REAL(write)(fd, data, size);
    struct stat st;
    int64_t at = (fcntl(fd, F_GETFL) & O_APPEND) && !fstat(fd, &st) ? st.st_size : lseek(fd, 0, SEEK_CUR);
    int error = refusal(fd, at + (int64_t)size);
    if (error) return errno = error, -1;
    ssize_t done = REAL(write)(fd, data, size);
    if (done > 0) note('w', name, at, data, (size_t)done);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    const char *name = watched(fd);
    if (!name) return REAL(pwrite64)(fd, data, size, at);
    int error = refusal(fd, at + (int64_t)size);
    if (error) return errno = error, -1;
    ssize_t done = REAL(pwrite64)(fd, data, size, at);
    if (done > 0) note('w', name, at, data, (size_t)done);
    return done;
}

int ftruncate64(int fd, off64_t size) {
    const char *name = watched(fd);
    int error = name ? refusal(fd, -1) : 0;
    if (error) return errno = error, -1;
    int done = REAL(ftruncate64)(fd, size);
    if (name && !done) note('t', name, size, "", 0);
    return done;
}

static int sync_of(int fd, int (*real)(int)) {
    const char *name = watched(fd);
    if (name && fails()) return errno = EIO, -1;
    int done = real(fd);
    if (name && !done) note('s', name, 0, "", 0);
    return done;
}

int fsync(int fd) { return sync_of(fd, REAL(fsync)); }
int fdatasync(int fd) { return sync_of(fd, REAL(fdatasync)); }

int unlink(const char *path) {
    char whole[PATH_MAX];
    if (!below(path, whole)) return REAL(unlink)(path);
    if (ctl->mode == 'r') return errno = EROFS, -1;
    int done = REAL(unlink)(path);
    if (!done) note('u', whole, 0, "", 0);
    return done;
}

int rename(const char *from, const char *to) {
    char a[PATH_MAX], b[PATH_MAX];
    if (!below(from, a) || !below(to, b)) return REAL(rename)(from, to);
    if (ctl->mode == 'r') return errno = EROFS, -1;
    int done = REAL(rename)(from, to);
    if (!done) note('r', a, 0, b, strlen(b));
    return done;
}

/* the clock ------------------------------------------------------------------------------------------------------- */
int clock_gettime(clockid_t which, struct timespec *t) {
    int done = REAL(clock_gettime)(which, t);
    if (!done && which == CLOCK_REALTIME && ctl->clock != 0) {
        double off = ctl->clock, whole = (double)(int64_t)off;
        t->tv_sec += (time_t)whole;
        t->tv_nsec += (long)((off - whole) * 1e9);
        if (t->tv_nsec >= 1000000000L) t->tv_nsec -= 1000000000L, t->tv_sec++;
        if (t->tv_nsec < 0) t->tv_nsec += 1000000000L, t->tv_sec--;
    }
    return done;
}

int gettimeofday(struct timeval *t, void *zone) {
    int done = REAL(gettimeofday)(t, zone);
    if (!done) t->tv_sec += (time_t)ctl->clock;
    return done;
}

time_t time(time_t *into) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (into) *into = t.tv_sec;
    return t.tv_sec;
}
