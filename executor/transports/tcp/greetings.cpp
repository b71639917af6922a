#include "executor/transports/tcp/greetings.hpp"

#include <chrono>
#include <utility>

#include "executor/values/packing.hpp"
#include "profiles/error.hpp"

namespace stagecraft::tcp {

bool is_kin(const Hello& one, const Hello& other) {
  return one.magic == other.magic && one.run == other.run && one.port_of_run == other.port_of_run &&
         one.processes == other.processes;
}

Code proof_of(const std::string& secret, std::string_view role, const Hello& asks,
              const Hello& answers) {
  std::string message(role);
  message.append(reinterpret_cast<const char*>(&asks), sizeof asks);
  message.append(reinterpret_cast<const char*>(&answers), sizeof answers);
  return code_of(secret, message);
}

Visitor::State Visitor::hear(Hello own, const std::string& secret) {
  if (!has_said_hello_) {
    const State state = fill(bytes_of(hello_));
    if (state != State::is_admitted) return state;
    if (!is_kin(hello_, own) || hello_.rank <= own.rank || hello_.rank >= own.processes) {
      return State::is_refused;
    }
    own.nonce = new_nonce();
    Answer answer{.hello = own, .proof = proof_of(secret, "answers", hello_, own)};
    expected_ = proof_of(secret, "asks", hello_, own);
    has_said_hello_ = true;
    came_ = 0;
    if (!write_all(socket_, bytes_of(answer), std::chrono::milliseconds(0)))
      return State::is_refused;
  }
  const State state = fill(bytes_of(proof_));
  if (state != State::is_admitted) return state;
  return is_equal(proof_, expected_) ? State::is_admitted : State::has_other_secret;
}

/// Admitted when all of it is there.
Visitor::State Visitor::fill(std::span<std::byte> place) {
  while (came_ < place.size()) {
    const auto read = read_some(socket_, place.subspan(came_));
    if (!read) return State::is_refused;
    if (*read == 0) return State::talks;
    came_ += *read;
  }
  return State::is_admitted;
}

std::string packed(const std::vector<Guest>& guests) {
  Packer packer;
  for (const Guest& guest : guests) {
    packer.put_bytes(guest.address);
    packer.put(guest.port);
    packer.put_bytes(guest.machine);
  }
  return packer.take();
}

std::vector<Guest> unpacked_guests(std::string_view table, std::size_t count) {
  constexpr int most_port = 65535;
  std::vector<Guest> guests(count);
  Unpacker unpacker(table);
  for (Guest& guest : guests) {
    guest.address = unpacker.get_bytes();
    guest.port = unpacker.get<int>();
    guest.machine = unpacker.get_bytes();
    if (guest.port >= 0 && guest.port <= most_port) continue;
    throw Error(ErrorKind::execution, concat("rank 0 announces a process at port ", guest.port,
                                             ": it is no rank of this run"));
  }
  return guests;
}

}  // namespace stagecraft::tcp
