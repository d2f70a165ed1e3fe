/* Preloaded into a process, it writes down every change below RECORD_DIRECTORY and every sync, in order, to RECORD_LOG.
   A record: kind (1 byte), lengths of path and data (4 bytes each), offset (8 bytes), path, data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int record_log = -1;
static const char *directory;

__attribute__((constructor)) static void start(void) {
  directory = getenv("RECORD_DIRECTORY");
  const char *path = getenv("RECORD_LOG");
  if (directory && path) record_log = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600);
}

static void put(const void *data, size_t size) {
  if (syscall(SYS_write, record_log, data, size) != (long)size) abort();
}

static void record(char kind, const char *path, uint64_t offset, const void *data, uint32_t size) {
  if (record_log < 0 || strncmp(path, directory, strlen(directory)) != 0) return;
  uint32_t length = strlen(path);
  pthread_mutex_lock(&mutex);
  put(&kind, 1);
  put(&length, 4);
  put(&size, 4);
  put(&offset, 8);
  put(path, length);
  if (size) put(data, size);
  pthread_mutex_unlock(&mutex);
}

static void record_descriptor(char kind, int descriptor, uint64_t offset, const void *data, uint32_t size) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  record(kind, path, offset, data, size);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                      \
  int name(const char *path, int flags, ...) {                          \
    va_list rest;                                                       \
    va_start(rest, flags);                                              \
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;           \
    va_end(rest);                                                       \
    int descriptor = REAL(name)(path, flags, mode);                     \
    if (descriptor >= 0 && flags & O_CREAT) record_descriptor('C', descriptor, 0, 0, 0); \
    return descriptor;                                                  \
  }
OPEN(open)
OPEN(open64)

#define PWRITE(name, offset_type)                                                       \
  ssize_t name(int descriptor, const void *data, size_t size, offset_type offset) {     \
    record_descriptor('W', descriptor, offset, data, size);                             \
    return REAL(name)(descriptor, data, size, offset);                                  \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int descriptor, const void *data, size_t size) {
  off_t offset = lseek(descriptor, 0, SEEK_CUR);
  if (offset >= 0) record_descriptor('W', descriptor, offset, data, size);
  return REAL(write)(descriptor, data, size);
}

#define TRUNCATE(name, size_type)                   \
  int name(int descriptor, size_type size) {        \
    record_descriptor('T', descriptor, size, 0, 0); \
    return REAL(name)(descriptor, size);            \
  }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define SYNC(name)                                                 \
  int name(int descriptor) {                                       \
    int result = REAL(name)(descriptor);                           \
    if (result == 0) record_descriptor('S', descriptor, 0, 0, 0);  \
    return result;                                                 \
  }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
  int result = REAL(rename)(from, to);
  if (result == 0) record('R', from, 0, to, strlen(to));
  return result;
}

int unlink(const char *path) {
  int result = REAL(unlink)(path);
  if (result == 0) record('U', path, 0, 0, 0);
  return result;
}
