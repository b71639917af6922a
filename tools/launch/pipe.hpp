// Pipes whose ends are closed by destructors.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "profiles/error.hpp"

namespace stagecraft {

/// A file descriptor that is closed by the destructor.
class OwnedDescriptor {
 public:
  explicit OwnedDescriptor(int number = -1) : number_(number) {}
  ~OwnedDescriptor() { close_now(); }
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;
  int number() const { return number_; }
  void set(int number) {
    close_now();
    number_ = number;
  }
  void close_now() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// Throws Error (execution) if there are no descriptors left.
struct Pipe {
  Pipe() {
    int both[2];
    if (pipe2(both, O_CLOEXEC) != 0) {
      throw Error(ErrorKind::execution, concat("cannot make a pipe: ", std::strerror(errno)));
    }
    out.set(both[0]);
    in.set(both[1]);
  }
  OwnedDescriptor out, in;
};

}  // namespace stagecraft
