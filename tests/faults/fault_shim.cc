// fault_shim: an LD_PRELOAD library that makes one chosen system call of a program fail, for tests
// of what the program does then. Counts only calls on paths that hold the text of FAULT_UNDER.
//
//   FAULT="<call>:<n>:<what>"  the n-th such call, from 1; 0: every second one, from the first on
//   FAULT_UNDER=<text>         part of the path
//   FAULT_LOG=<file>           gets one line, the call's name, for each call counted
//   FAULT_UNTIL=<file>         what a call that is held waits for
//
// <what>: EIO, ENOSPC, EINTR, ENOSYS; short (half of the bytes); kill (before the call) or died
// (after it); hold (the call waits until a file of that name is there, for a minute at most).
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

namespace {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct Fault {
  char call[32] = "";
  long n = -1;
  char what[16] = "";
  const char* under = nullptr;
  int log = -1;

  Fault() {
    under = getenv("FAULT_UNDER");
    if (const char* path = getenv("FAULT_LOG"))
      log = real<int(const char*, int, ...)>("open")(
          path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const char* text = getenv("FAULT");
    if (text == nullptr) return;
    const char* first = strchr(text, ':');
    const char* second = first != nullptr ? strchr(first + 1, ':') : nullptr;
    if (second == nullptr) abort();
    strncpy(call, text, static_cast<size_t>(first - text));
    n = atol(first + 1);
    strncpy(what, second + 1, sizeof what - 1);
  }
  bool is(const char* w) const { return strcmp(what, w) == 0; }
};

const Fault& fault() {
  static const Fault value;
  return value;
}

std::atomic<long> calls{0};

bool is_under(int dir, const char* name) {
  const char* under = fault().under;
  if (under == nullptr) return false;
  if (name != nullptr && strstr(name, under) != nullptr) return true;
  if (name != nullptr && (name[0] == '/' || dir == AT_FDCWD)) return false;
  char link[64] = "/proc/self/fd/";
  char path[PATH_MAX];
  char digits[16];
  int at = 0;
  for (int rest = dir; at == 0 || rest > 0; rest /= 10)
    digits[at++] = static_cast<char>('0' + rest % 10);
  size_t end = strlen(link);
  while (at > 0) link[end++] = digits[--at];
  link[end] = 0;
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  return strstr(path, under) != nullptr;
}

void wait_until_let_go() {
  const char* gate = getenv("FAULT_UNTIL");
  for (int i = 0; i < 60'000; ++i) {
    if (gate != nullptr && access(gate, F_OK) == 0) return;
    usleep(1000);
  }
  abort();
}

enum class Verdict { kPass, kFail, kShort, kDie };

Verdict judge(const char* call, int dir, const char* name) {
  const int saved = errno;
  Verdict verdict = Verdict::kPass;
  if (fault().under != nullptr && is_under(dir, name)) {
    if (fault().log >= 0) {
      char line[40];
      const size_t length = strlen(call);
      memcpy(line, call, length);
      line[length] = '\n';
      if (real<ssize_t(int, const void*, size_t)>("write")(fault().log, line, length + 1) < 0)
        abort();
    }
    if (strcmp(call, fault().call) == 0) {
      const long k = ++calls;
      if (fault().n == 0 ? k % 2 == 1 : k == fault().n) {
        if (fault().is("kill")) kill(getpid(), SIGKILL);
        if (fault().is("hold")) wait_until_let_go();
        verdict = fault().is("short")  ? Verdict::kShort
                  : fault().is("died") ? Verdict::kDie
                  : fault().is("hold") ? Verdict::kPass
                                       : Verdict::kFail;
      }
    }
  }
  errno = saved;
  return verdict;
}

int error_number() {
  if (fault().is("ENOSPC")) return ENOSPC;
  if (fault().is("EINTR")) return EINTR;
  if (fault().is("ENOSYS")) return ENOSYS;
  return EIO;
}

// The call, or what stands in its place. shortened: the same with half of the bytes.
template <typename Call, typename Short>
auto run(const char* name, int dir, const char* path, const Call& call, const Short& shortened) {
  switch (judge(name, dir, path)) {
    case Verdict::kFail:
      errno = error_number();
      return static_cast<decltype(call())>(-1);
    case Verdict::kShort:
      return shortened();
    case Verdict::kDie:
      call();
      kill(getpid(), SIGKILL);
      [[fallthrough]];
    default:
      return call();
  }
}

template <typename Call>
auto run(const char* name, int dir, const char* path, const Call& call) {
  return run(name, dir, path, call, call);
}

size_t half(size_t n) { return n > 1 ? n / 2 : n; }

}  // namespace

extern "C" {

#define TRANSFER(FUNCTION, NAME, BUFFER)                                    \
  ssize_t FUNCTION(int fd, BUFFER data, size_t n) {                         \
    static const auto call = real<ssize_t(int, BUFFER, size_t)>(#FUNCTION); \
    return run(                                                             \
        NAME, fd, nullptr, [&] { return call(fd, data, n); },               \
        [&] { return call(fd, data, half(n)); });                           \
  }
#define TRANSFER_AT(FUNCTION, NAME, BUFFER)                                        \
  ssize_t FUNCTION(int fd, BUFFER data, size_t n, off_t offset) {                  \
    static const auto call = real<ssize_t(int, BUFFER, size_t, off_t)>(#FUNCTION); \
    return run(                                                                    \
        NAME, fd, nullptr, [&] { return call(fd, data, n, offset); },              \
        [&] { return call(fd, data, half(n), offset); });                          \
  }
#define OPEN(FUNCTION)                                                                   \
  int FUNCTION(const char* path, int flags, ...) {                                       \
    static const auto call = real<int(const char*, int, ...)>(#FUNCTION);                \
    va_list rest;                                                                        \
    va_start(rest, flags);                                                               \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                        \
    return run("open", AT_FDCWD, path, [&] { return call(path, flags, mode); });         \
  }
#define OPEN_AT(FUNCTION)                                                                \
  int FUNCTION(int dir, const char* path, int flags, ...) {                              \
    static const auto call = real<int(int, const char*, int, ...)>(#FUNCTION);           \
    va_list rest;                                                                        \
    va_start(rest, flags);                                                               \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                        \
    return run("open", dir, path, [&] { return call(dir, path, flags, mode); });         \
  }
#define ON_FILE(FUNCTION, NAME)                              \
  int FUNCTION(int fd) {                                     \
    static const auto call = real<int(int)>(#FUNCTION);      \
    return run(NAME, fd, nullptr, [&] { return call(fd); }); \
  }

TRANSFER(read, "read", void*)
TRANSFER(write, "write", const void*)
TRANSFER_AT(pread, "pread", void*)
TRANSFER_AT(pread64, "pread", void*)
TRANSFER_AT(pwrite, "pwrite", const void*)
TRANSFER_AT(pwrite64, "pwrite", const void*)
OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)
// What _FORTIFY_SOURCE makes of them where sizes are known; the C library calls none of the above.
ssize_t __read_chk(int fd, void* data, size_t n, size_t room) {
  if (n > room) abort();
  return read(fd, data, n);
}
ssize_t __pread_chk(int fd, void* data, size_t n, off_t offset, size_t room) {
  if (n > room) abort();
  return pread(fd, data, n, offset);
}
ssize_t __pread64_chk(int fd, void* data, size_t n, off_t offset, size_t room) {
  return __pread_chk(fd, data, n, offset, room);
}
int __open_2(const char* path, int flags) { return open(path, flags); }
int __open64_2(const char* path, int flags) { return open(path, flags); }
int __openat_2(int dir, const char* path, int flags) { return openat(dir, path, flags); }
int __openat64_2(int dir, const char* path, int flags) { return openat(dir, path, flags); }
ON_FILE(fsync, "fsync")
ON_FILE(fdatasync, "fsync")

int ftruncate(int fd, off_t length) {
  static const auto call = real<int(int, off_t)>("ftruncate");
  return run("ftruncate", fd, nullptr, [&] { return call(fd, length); });
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }
int flock(int fd, int operation) {
  static const auto call = real<int(int, int)>("flock");
  return run("flock", fd, nullptr, [&] { return call(fd, operation); });
}
int unlink(const char* path) {
  static const auto call = real<int(const char*)>("unlink");
  return run("unlink", AT_FDCWD, path, [&] { return call(path); });
}
int unlinkat(int dir, const char* path, int flags) {
  static const auto call = real<int(int, const char*, int)>("unlinkat");
  return run("unlink", dir, path, [&] { return call(dir, path, flags); });
}
int remove(const char* path) {
  static const auto call = real<int(const char*)>("remove");
  return run("unlink", AT_FDCWD, path, [&] { return call(path); });
}
int rename(const char* from, const char* to) {
  static const auto call = real<int(const char*, const char*)>("rename");
  return run("rename", AT_FDCWD, to, [&] { return call(from, to); });
}
int renameat(int from_dir, const char* from, int to_dir, const char* to) {
  static const auto call = real<int(int, const char*, int, const char*)>("renameat");
  return run("rename", to_dir, to, [&] { return call(from_dir, from, to_dir, to); });
}
int renameat2(int from_dir, const char* from, int to_dir, const char* to, unsigned flags) {
  static const auto call = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return run("rename", to_dir, to, [&] { return call(from_dir, from, to_dir, to, flags); });
}
int mkdir(const char* path, mode_t mode) {
  static const auto call = real<int(const char*, mode_t)>("mkdir");
  return run("mkdir", AT_FDCWD, path, [&] { return call(path, mode); });
}

}  // extern "C"
