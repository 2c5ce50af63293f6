// Symbols of glibc that are newer than 2.28, in terms of older ones, for code that was compiled
// against a newer glibc. Nothing outside the library that this is linked into sees them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <time.h>

#pragma GCC visibility push(hidden)

// What compilers take for "no other thread may run": reference counts stay atomic.
char __libc_single_threaded = 0;

// Before 2.33, stat and its kin were static functions over these. 1 is the version of struct stat
// on x86-64.
enum { kStatVersion = 1 };
extern int __xstat(int, const char*, void*) __attribute__((visibility("default")));
extern int __lxstat(int, const char*, void*) __attribute__((visibility("default")));
extern int __fxstat(int, int, void*) __attribute__((visibility("default")));
extern int __fxstatat(int, int, const char*, void*, int) __attribute__((visibility("default")));
int stat(const char* path, void* to) { return __xstat(kStatVersion, path, to); }
int stat64(const char* path, void* to) { return __xstat(kStatVersion, path, to); }
int lstat(const char* path, void* to) { return __lxstat(kStatVersion, path, to); }
int lstat64(const char* path, void* to) { return __lxstat(kStatVersion, path, to); }
int fstat(int fd, void* to) { return __fxstat(kStatVersion, fd, to); }
int fstat64(int fd, void* to) { return __fxstat(kStatVersion, fd, to); }
int fstatat(int fd, const char* path, void* to, int flags) {
  return __fxstatat(kStatVersion, fd, path, to, flags);
}
int fstatat64(int fd, const char* path, void* to, int flags) {
  return __fxstatat(kStatVersion, fd, path, to, flags);
}

extern void* __dso_handle;
extern int __cxa_atexit(void (*)(void*), void*, void*) __attribute__((visibility("default")));
int atexit(void (*call)(void)) { return __cxa_atexit((void (*)(void*))call, NULL, __dso_handle); }

// 2.30. An older glibc waits by the time of day, which somebody may set while it waits.
typedef int (*ClockWait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* until) {
  static ClockWait newer;
  static int is_known;
  if (!__atomic_load_n(&is_known, __ATOMIC_ACQUIRE)) {
    newer = (ClockWait)dlsym(RTLD_DEFAULT, "pthread_cond_clockwait");
    __atomic_store_n(&is_known, 1, __ATOMIC_RELEASE);
  }
  if (newer != NULL) return newer(condition, mutex, clock, until);
  struct timespec now, day;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &day) != 0) return errno;
  day.tv_sec += until->tv_sec - now.tv_sec;
  day.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (day.tv_nsec < 0) {
    day.tv_nsec += 1000000000;
    --day.tv_sec;
  } else if (day.tv_nsec >= 1000000000) {
    day.tv_nsec -= 1000000000;
    ++day.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &day);
}

#pragma GCC visibility pop
