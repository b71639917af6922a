// Sockets of the internet protocols, as the processes of a run use them.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace stagecraft::tcp {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// Waits for connections to any address of this machine, on this port (0: one that is free).
/// Nothing if it is taken.
std::optional<Socket> listen_on(int port);
int port_of(const Socket& listener);

/// Nothing if nobody answers within this time.
std::optional<Socket> connect_to(const std::string& host, int port,
                                 std::chrono::milliseconds patience);
std::optional<Socket> accept_from(const Socket& listener, std::chrono::milliseconds patience);

/// Where the other end is, as a number.
std::string address_of_peer(const Socket& socket);

/// All bytes or false, within this time for each part of them.
bool write_all(const Socket& socket, std::span<const std::byte> bytes,
               std::chrono::milliseconds patience);
bool read_all(const Socket& socket, std::span<std::byte> bytes, std::chrono::milliseconds patience);

}  // namespace stagecraft::tcp
