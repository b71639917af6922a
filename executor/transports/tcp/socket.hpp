// Sockets of the internet protocols, as the processes of a run use them.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// Waits for connections to this address of this machine (its number, or a name; empty: to any of
/// them), on this port (0: one that is free). Nothing if the port is taken, or the address another
/// machine's.
std::optional<Socket> listen_on(const std::string& address, int port);
int port_of(const Socket& listener);

/// The number of an address of this interface ("eth0"), or nothing if there is none.
std::optional<std::string> address_of_interface(const std::string& interface);
/// Whether it means this machine on every machine: 127.0.0.1, ::1 and their like.
bool is_loopback(std::string_view address);

/// Nothing if nobody answers within this time.
std::optional<Socket> connect_to(const std::string& host, int port,
                                 std::chrono::milliseconds patience);
std::optional<Socket> accept_from(const Socket& listener, std::chrono::milliseconds patience);

/// Where the other end is, and this one, as a number.
std::string address_of_peer(const Socket& socket);
std::string own_address(const Socket& socket);

/// Returns when one of them can be read from, or after this time.
void await_input(std::span<const Socket* const> sockets, std::chrono::milliseconds patience);
/// How many bytes came, without waiting for them; nothing if the other end is gone.
std::optional<std::size_t> read_some(const Socket& socket, std::span<std::byte> place);

/// All bytes or false, within this time for each part of them.
bool write_all(const Socket& socket, std::span<const std::byte> bytes,
               std::chrono::milliseconds patience);
bool read_all(const Socket& socket, std::span<std::byte> bytes, std::chrono::milliseconds patience);

}  // namespace stagecraft::tcp
