// Loaded ahead of the C library (LD_PRELOAD): from the moment when a file is opened whose name ends
// as FAIL_BEHIND says, the allocation number FAIL_AT fails, once, and the file FAILED_FILE is made
// to say so.

#include <fcntl.h>
#include <unistd.h>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include <atomic>

extern "C" {

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);

}  // extern "C"

namespace {

constexpr long nothing_fails = -1;
std::atomic<long> left{nothing_fails};
std::atomic<bool> has_begun{false};

void begin_behind(const char* path) {
  const char* end = std::getenv("FAIL_BEHIND");
  const char* number = std::getenv("FAIL_AT");
  if (end == nullptr || number == nullptr || std::strlen(path) < std::strlen(end)) return;
  if (std::strcmp(path + std::strlen(path) - std::strlen(end), end) != 0) return;
  if (!has_begun.exchange(true)) left = std::atol(number);
}

bool fails() {
  if (left < 0 || left-- != 0) return false;
  left = nothing_fails;
  if (const char* file = std::getenv("FAILED_FILE")) {
    const int descriptor = openat(AT_FDCWD, file, O_WRONLY | O_CREAT, 0644);
    if (descriptor >= 0) close(descriptor);
  }
  errno = ENOMEM;
  return true;
}

int open_as(const char* path, int flags, va_list more) {
  const bool makes = (flags & (O_CREAT | O_TMPFILE)) != 0;
  const mode_t mode = makes ? va_arg(more, mode_t) : 0;
  begin_behind(path);
  return openat(AT_FDCWD, path, flags, mode);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int descriptor = open_as(path, flags, more);
  va_end(more);
  return descriptor;
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int descriptor = open_as(path, flags, more);
  va_end(more);
  return descriptor;
}
void* malloc(std::size_t size) {
  return fails() ? nullptr : __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  return fails() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* place, std::size_t size) {
  return fails() ? nullptr : __libc_realloc(place, size);
}

}  // extern "C"
