#include "executor/transports/tcp/rendezvous.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "executor/transports/processes.hpp"
#include "executor/transports/tcp/authentication.hpp"
#include "executor/transports/tcp/greetings.hpp"
#include "profiles/error.hpp"

namespace stagecraft::tcp {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int ports_tried = 16;
constexpr auto answer_time = 2s;  ///< of somebody who may be another than we look for
constexpr auto pause = 50ms;      ///< between two rounds of knocking
/// With one that calls itself rank 0 of this run and knows another secret: it may be another run's,
/// and ours at a port behind that.
constexpr auto patience_with_other_secret = 2s;
/// Those that have connected and not proved yet who they are; the next one replaces the first.
constexpr std::size_t most_visitors_besides_ranks = 64;
template <std::size_t size>
void put(std::array<char, size>& field, const std::string& text) {
  text.copy(field.data(), size - 1);
}

/// The same for all processes that share a clock, in containers, too.
std::string machine_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  std::getline(file, name);
  return name;
}

Hello hello_of(const MeetingPlace& place, int rank, int processes) {
  Hello hello{.port_of_run = place.port, .processes = processes, .rank = rank};
  put(hello.run, place.run);
  put(hello.machine, machine_name());
  return hello;
}

constexpr std::string_view one_secret =
    "secret (STAGECRAFT_SECRET); give all processes of the run the same";

[[noreturn]] void give_up(const std::string& why, const MeetingPlace& place) {
  throw Error(ErrorKind::execution,
              concat(why, "; do all processes have MASTER_ADDR=", place.host,
                     " and MASTER_PORT=", place.port, ", and can rank 0 be reached there?"));
}

std::string ranks_missing(const std::vector<Socket>& sockets, int first) {
  std::string missing;
  for (std::size_t i = static_cast<std::size_t>(first); i < sockets.size(); ++i) {
    if (!sockets[i].is_open()) missing += concat(missing.empty() ? "" : ", ", i);
  }
  return missing;
}

class Meeting {
 public:
  Meeting(const MeetingPlace& place, int rank, int processes, std::chrono::seconds patience)
      : place_(place),
        rank_(rank),
        patience_(patience),
        deadline_(Clock::now() + patience),
        hello_(hello_of(place, rank, processes)),
        guests_(static_cast<std::size_t>(processes)),
        sockets_(static_cast<std::size_t>(processes)) {}

  Connections run() {
    rank_ == 0 ? receive_all() : join();
    Connections found{.sockets = std::move(sockets_), .machines = {}};
    for (const Guest& guest : guests_) found.machines.push_back(guest.machine);
    return found;
  }

 private:
  Socket& socket_of(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }
  Guest& guest_of(int rank) { return guests_[static_cast<std::size_t>(rank)]; }
  int processes() const { return hello_.processes; }
  bool is_late() const { return Clock::now() > deadline_; }
  std::chrono::milliseconds left() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
        std::max(deadline_ - Clock::now(), Clock::duration(answer_time)));
  }

  /// On rank 0.
  void receive_all() {
    const Socket listener = listen_near();
    guest_of(0) = {.address = place_.host, .port = 0, .machine = hello_.machine.data()};
    accept_others(listener);
    std::string table = packed(guests_);
    auto size = static_cast<std::uint64_t>(table.size());
    for (int rank = 1; rank < processes(); ++rank) {
      if (!write_all(socket_of(rank), bytes_of(size), left()) ||
          !write_all(socket_of(rank), std::as_bytes(std::span(table)), left())) {
        throw PeerLost(concat("rank ", rank, " has gone before all have met"));
      }
    }
  }

  /// The address that the meeting place means on this machine, if it is one of its own.
  std::string address_to_listen_on() const {
    if (!place_.interface.empty()) return place_.interface;
    if (is_loopback(place_.host)) return place_.host;
    const auto found = listen_on(place_.host, 0);
    // A machine may call itself by a name that only it knows: 127.0.1.1.
    return found && !is_loopback(own_address(*found)) ? place_.host : "";
  }

  Socket listen_near() const {
    const std::string address = address_to_listen_on();
    for (int port = place_.port; port < place_.port + ports_tried; ++port) {
      if (auto listener = listen_on(address, port)) return std::move(*listener);
    }
    give_up(concat("none of the ports ", place_.port, " to ", place_.port + ports_tried - 1,
                   " is free on rank 0's machine"),
            place_);
  }

  /// Those of higher ranks, however many strangers come, too.
  void accept_others(const Socket& listener) {
    std::vector<Visitor> visitors;
    while (!ranks_missing(sockets_, rank_ + 1).empty()) {
      if (is_late()) fail_missing();
      await_any(listener, visitors);
      while (auto socket = accept_from(listener, 0ms)) visitors.emplace_back(std::move(*socket));
      hear_all(visitors);
      const std::size_t most = most_visitors_besides_ranks + static_cast<std::size_t>(processes());
      if (visitors.size() > most) {
        visitors.erase(visitors.begin(), visitors.end() - static_cast<std::ptrdiff_t>(most));
      }
    }
  }

  [[noreturn]] void fail_missing() const {
    const std::string missing = concat("rank ", ranks_missing(sockets_, rank_ + 1), " of ",
                                       processes(), " has not come to rank ", rank_);
    if (with_other_secret_.empty()) give_up(missing, place_);
    const std::size_t callers = with_other_secret_.size();
    throw Error(ErrorKind::execution,
                concat(missing, "; ", callers, callers == 1 ? " caller" : " callers",
                       " knew another ", one_secret));
  }

  static void await_any(const Socket& listener, const std::vector<Visitor>& visitors) {
    std::vector<const Socket*> sockets{&listener};
    for (const Visitor& visitor : visitors) sockets.push_back(&visitor.socket());
    await_input(sockets, pause);
  }

  void hear_all(std::vector<Visitor>& visitors) {
    std::erase_if(visitors, [&](Visitor& visitor) {
      const Visitor::State state = visitor.hear(hello_, place_.secret);
      if (state == Visitor::State::is_admitted) admit(visitor);
      if (state == Visitor::State::has_other_secret)
        with_other_secret_.insert(visitor.hello().rank);
      return state != Visitor::State::talks;
    });
  }

  /// Who comes twice has tried again.
  void admit(Visitor& visitor) {
    const Hello& hello = visitor.hello();
    std::string machine(hello.machine.data(), strnlen(hello.machine.data(), hello.machine.size()));
    guest_of(hello.rank) = {.address = address_of_peer(visitor.socket()),
                            .port = hello.listens_on,
                            .machine = std::move(machine)};
    socket_of(hello.rank) = visitor.take_socket();
  }

  /// On all others.
  void join() {
    const Socket listener = knock_at_rank_0();
    hear_addresses();
    for (int rank = 1; rank < rank_; ++rank) connect_to_rank(rank);
    accept_others(listener);
  }

  /// Returns where this rank listens: on the address by which it reaches rank 0, unless only those
  /// on rank 0's machine reach it there, and there are others.
  Socket listen_beside(const Socket& to_rank_0) const {
    const std::string own = own_address(to_rank_0);
    const bool is_known = is_loopback(own) == is_loopback(place_.host);
    const std::string address =
        !place_.interface.empty() ? place_.interface : is_known ? own : std::string();
    auto listener = listen_on(address, 0);
    if (!listener) throw Error(ErrorKind::execution, "no port is free on this machine");
    return std::move(*listener);
  }

  Socket knock_at_rank_0() {
    while (true) {
      for (int port = place_.port; port < place_.port + ports_tried; ++port) {
        auto socket = connect_to(place_.host, port, answer_time);
        if (!socket) continue;
        Socket listener = listen_beside(*socket);
        hello_.listens_on = port_of(listener);
        if (!is_introduced(*socket, 0, answer_time)) continue;
        socket_of(0) = std::move(*socket);
        return listener;
      }
      const auto given_up =
          other_secret_since_
              ? std::min(deadline_, *other_secret_since_ + patience_with_other_secret)
              : deadline_;
      if (other_secret_since_ && Clock::now() > given_up) {
        throw Error(ErrorKind::execution, concat("rank 0 at ", place_.host, ", port ", place_.port,
                                                 ", knows another ", one_secret));
      }
      if (is_late()) give_up("rank 0 does not answer", place_);
      std::this_thread::sleep_for(pause);
    }
  }

  /// Says who this is to somebody who should be this rank, and hears whether it is.
  bool is_introduced(const Socket& socket, int rank, std::chrono::milliseconds patience) {
    hello_.nonce = new_nonce();
    Answer answer;
    if (!write_all(socket, bytes_of(hello_), patience) ||
        !read_all(socket, bytes_of(answer), patience) || answer.hello.rank != rank ||
        !is_kin(answer.hello, hello_)) {
      return false;
    }
    if (!is_equal(answer.proof, proof_of(place_.secret, "answers", hello_, answer.hello))) {
      // So that it hears of the mistake: a proof that is none.
      if (!other_secret_since_) other_secret_since_ = Clock::now();
      Code none{};
      write_all(socket, bytes_of(none), patience);
      return false;
    }
    Code proof = proof_of(place_.secret, "asks", hello_, answer.hello);
    return write_all(socket, bytes_of(proof), patience);
  }

  void hear_addresses() {
    std::uint64_t size = 0;
    std::string table;
    bool heard = read_all(socket_of(0), bytes_of(size), left());
    if (heard && size > most_bytes_of_guest * guests_.size()) {
      throw Error(ErrorKind::execution,
                  concat("rank 0 announces ", size, " bytes of addresses for ", processes(),
                         " processes: it is no rank of this run"));
    }
    if (heard) {
      table.resize(size);
      heard = read_all(socket_of(0), std::as_writable_bytes(std::span(table)), left());
    }
    if (!heard) {
      if (!is_late()) throw PeerLost("rank 0 has gone before all have met");
      give_up(concat("not all processes have met within ", patience_.count(), " s"), place_);
    }
    guests_ = unpacked_guests(table, guests_.size());
  }

  /// Rank 0 sees its neighbours at addresses that mean something on its machine only; there they
  /// are reached as rank 0 is. They listen before they knock at rank 0.
  void connect_to_rank(int rank) {
    const Guest& guest = guest_of(rank);
    const std::string& host = is_loopback(guest.address) ? place_.host : guest.address;
    while (true) {
      auto socket = connect_to(host, guest.port, answer_time);
      if (socket && is_introduced(*socket, rank, left())) {
        socket_of(rank) = std::move(*socket);
        return;
      }
      if (is_late()) {
        throw Error(ErrorKind::execution,
                    concat("rank ", rank_, " cannot reach rank ", rank, " at ", host, ", port ",
                           guest.port, "; is a firewall between them?"));
      }
      std::this_thread::sleep_for(pause);
    }
  }

  const MeetingPlace& place_;
  int rank_;
  std::chrono::seconds patience_;
  Clock::time_point deadline_;
  Hello hello_;
  std::vector<Guest> guests_;
  std::vector<Socket> sockets_;
  std::optional<Clock::time_point> other_secret_since_;  ///< when such a rank 0 first answered
  std::set<int> with_other_secret_;                      ///< the ranks that callers said to be
};

/// A variable's text; empty if it is not set.
std::string text_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

}  // namespace

MeetingPlace meeting_place_of_environment() {
  MeetingPlace place{.host = text_in("MASTER_ADDR"),
                     .run = text_in("TORCHELASTIC_RUN_ID"),
                     .secret = text_in(secret_variable)};
  const std::string digits = text_in("MASTER_PORT");
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), place.port);
  const bool is_number = error == std::errc{} && end == digits.data() + digits.size();
  if (place.host.empty() || !is_number || place.port < 1 || place.port > 65535 - ports_tried) {
    throw Error(ErrorKind::usage,
                concat("RANK and WORLD_SIZE are set, but MASTER_ADDR=", place.host,
                       " and MASTER_PORT=", digits,
                       " are no host and port where rank 0 can be met; torchrun sets all four"));
  }
  const std::string local = text_in("LOCAL_WORLD_SIZE");
  if (!local.empty() && local == text_in("WORLD_SIZE")) place.host = "127.0.0.1";
  if (const std::string interface = text_in("STAGECRAFT_INTERFACE"); !interface.empty()) {
    const auto address = address_of_interface(interface);
    if (!address) {
      throw Error(ErrorKind::usage, concat("STAGECRAFT_INTERFACE=", interface,
                                           ": this machine has no such network interface with an "
                                           "address; `ip address` lists those it has"));
    }
    if (!is_loopback(place.host)) place.interface = *address;
  }
  return place;
}

Connections connect_all(const MeetingPlace& place, int rank, int processes,
                        std::chrono::seconds patience) {
  return Meeting(place, rank, processes, patience).run();
}

}  // namespace stagecraft::tcp
