/* Preloaded into a process, it makes calls on files below a directory fail. The process arms it: after so many more calls
   of the kinds asked for (a mask of 1 write, 2 sync, 4 open for writing), one of them or all later ones fail so.
   It can also set the clock of the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static char directory[4096];
static int kinds, with_errno, forever;
static atomic_int left, failures;

void fail_after(const char *below, int kind_mask, int calls, int error, int for_ever) {
  snprintf(directory, sizeof directory, "%s", below);
  with_errno = error;
  forever = for_ever;
  left = calls;
  failures = 0;
  kinds = kind_mask;
}

int failed(void) { return failures; }

static int fails_at(int kind, const char *path) {
  if (!(kinds & kind) || strncmp(path, directory, strlen(directory)) != 0 || strstr(path, "-shm")) return 0;
  int now = atomic_fetch_sub(&left, 1);
  if (now > 0 || (now < 0 && !forever)) return 0;
  failures++;
  errno = with_errno;
  return 1;
}

static int fails(int kind, int descriptor) {
  if (!(kinds & kind)) return 0;
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return fails_at(kind, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                 \
  int name(const char *path, int flags, ...) {                                     \
    va_list rest;                                                                  \
    va_start(rest, flags);                                                         \
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;                      \
    va_end(rest);                                                                  \
    if ((flags & O_ACCMODE) != O_RDONLY && fails_at(4, path)) return -1;           \
    return REAL(name)(path, flags, mode);                                          \
  }
OPEN(open)
OPEN(open64)

#define PWRITE(name, offset_type)                                                   \
  ssize_t name(int descriptor, const void *data, size_t size, offset_type offset) { \
    if (fails(1, descriptor)) return -1;                                            \
    return REAL(name)(descriptor, data, size, offset);                              \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int descriptor, const void *data, size_t size) {
  if (fails(1, descriptor)) return -1;
  return REAL(write)(descriptor, data, size);
}

#define TRUNCATE(name, size_type)               \
  int name(int descriptor, size_type size) {    \
    if (fails(1, descriptor)) return -1;        \
    return REAL(name)(descriptor, size);        \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                       \
  int name(int descriptor) {             \
    if (fails(2, descriptor)) return -1; \
    return REAL(name)(descriptor);       \
  }
SYNC(fsync)
SYNC(fdatasync)

static atomic_long clock_shift;

void shift_clock(long seconds) { clock_shift = seconds; }

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = REAL(clock_gettime)(clock, now);
  if (result == 0 && clock == CLOCK_REALTIME) now->tv_sec += clock_shift;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int result = REAL(gettimeofday)(now, zone);
  if (result == 0) now->tv_sec += clock_shift;
  return result;
}

time_t time(time_t *now) {
  time_t seconds = REAL(time)(0) + clock_shift;
  if (now) *now = seconds;
  return seconds;
}
