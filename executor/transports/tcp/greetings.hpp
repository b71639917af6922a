// What processes of a run say to each other when they meet (see rendezvous.hpp), and what somebody
// whom they do not know may say instead: nothing of it is believed before it is proved.

#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/transports/tcp/authentication.hpp"
#include "executor/transports/tcp/socket.hpp"

namespace stagecraft::tcp {

inline constexpr std::array<char, 24> greeting_magic{"stagecraft-processes/2\n"};

/// What who connects says first, and who is connected to answers.
struct Hello {
  std::array<char, 24> magic = greeting_magic;
  std::array<char, 64> run{};
  std::array<char, 64> machine{};
  Nonce nonce{};
  int port_of_run = 0;
  int processes = 0;
  int rank = 0;
  int listens_on = 0;
};

struct Answer {
  Hello hello;
  Code proof{};
};

/// Of the same run.
bool is_kin(const Hello& one, const Hello& other);

/// What who "asks", or "answers", proves its knowledge of the secret with.
Code proof_of(const std::string& secret, std::string_view role, const Hello& asks,
              const Hello& answers);

/// Somebody who has connected: what it has said so far, and whether it has proved who it is.
class Visitor {
 public:
  explicit Visitor(Socket socket) : socket_(std::move(socket)) {}

  enum class State { talks, is_admitted, is_refused, has_other_secret };

  /// Hears what has come. `own` is what this rank says of itself, with a nonce for this visitor.
  State hear(Hello own, const std::string& secret);

  const Hello& hello() const { return hello_; }
  const Socket& socket() const { return socket_; }
  Socket take_socket() { return std::move(socket_); }

 private:
  State fill(std::span<std::byte> place);

  Socket socket_;
  Hello hello_;
  Code proof_{}, expected_{};
  std::size_t came_ = 0;  ///< of the part that comes
  bool has_said_hello_ = false;
};

/// Who is where, as rank 0 tells all.
struct Guest {
  std::string address;
  int port = 0;  ///< none of rank 0, whom everybody knows
  std::string machine;
};
inline constexpr std::size_t most_bytes_of_guest = 256;

std::string packed(const std::vector<Guest>& guests);
/// Throws Error (execution) unless they are so many.
std::vector<Guest> unpacked_guests(std::string_view table, std::size_t count);

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace stagecraft::tcp
