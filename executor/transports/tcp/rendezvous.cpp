#include "executor/transports/tcp/rendezvous.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "executor/values/packing.hpp"
#include "profiles/error.hpp"

namespace stagecraft::tcp {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int ports_tried = 16;
constexpr auto answer_time = 2s;  ///< of somebody who is there
constexpr auto pause = 50ms;      ///< between two rounds of knocking

constexpr std::array<char, 24> magic{"stagecraft-processes/1\n"};

/// What who connects says first.
struct Hello {
  std::array<char, 24> magic = tcp::magic;
  std::array<char, 64> run{};
  std::array<char, 64> machine{};
  int port_of_run = 0;
  int processes = 0;
  int rank = 0;
  int listens_on = 0;
};

template <std::size_t size>
void put(std::array<char, size>& field, const std::string& text) {
  text.copy(field.data(), size - 1);
}

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
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

/// Whoever connects and belongs to the run, to this rank from a higher one.
bool belongs(const Hello& other, const Hello& own) {
  return other.magic == own.magic && other.run == own.run && other.port_of_run == own.port_of_run &&
         other.processes == own.processes && other.rank > own.rank && other.rank < own.processes;
}

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

/// Who is where, as rank 0 tells all.
struct Guest {
  std::string address;
  int port = 0;
  std::string machine;
};

std::string packed(const std::vector<Guest>& guests) {
  Packer packer;
  for (const Guest& guest : guests) {
    packer.put_bytes(guest.address);
    packer.put(guest.port);
    packer.put_bytes(guest.machine);
  }
  return packer.take();
}

class Meeting {
 public:
  Meeting(const MeetingPlace& place, int rank, int processes, std::chrono::seconds patience)
      : place_(place),
        rank_(rank),
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

  /// On rank 0.
  void receive_all() {
    const Socket listener = listen_near();
    guest_of(0) = {.address = place_.host, .port = 0, .machine = hello_.machine.data()};
    accept_others(listener);
    std::string table = packed(guests_);
    auto size = static_cast<std::uint64_t>(table.size());
    for (int rank = 1; rank < processes(); ++rank) {
      if (!write_all(socket_of(rank), bytes_of(size), answer_time) ||
          !write_all(socket_of(rank), std::as_bytes(std::span(table)), answer_time)) {
        give_up(concat("rank ", rank, " has gone before all have met"), place_);
      }
    }
  }

  Socket listen_near() const {
    for (int port = place_.port; port < place_.port + ports_tried; ++port) {
      if (auto listener = listen_on(port)) return std::move(*listener);
    }
    give_up(concat("none of the ports ", place_.port, " to ", place_.port + ports_tried - 1,
                   " is free on rank 0's machine"),
            place_);
  }

  /// Those of higher ranks. Who says hello twice has tried again.
  void accept_others(const Socket& listener) {
    while (!ranks_missing(sockets_, rank_ + 1).empty()) {
      if (is_late()) {
        give_up(concat("rank ", ranks_missing(sockets_, rank_ + 1), " of ", processes(),
                       " has not come to rank ", rank_),
                place_);
      }
      auto socket = accept_from(listener, pause);
      Hello hello;
      if (!socket || !read_all(*socket, bytes_of(hello), answer_time)) continue;
      if (!belongs(hello, hello_) || !write_all(*socket, bytes_of(hello_), answer_time)) continue;
      guest_of(hello.rank) = {.address = address_of_peer(*socket),
                              .port = hello.listens_on,
                              .machine = std::string(hello.machine.data())};
      socket_of(hello.rank) = std::move(*socket);
    }
  }

  /// On all others.
  void join() {
    const auto listener = listen_on(0);
    if (!listener) throw Error(ErrorKind::execution, "no port is free on this machine");
    hello_.listens_on = port_of(*listener);
    knock_at_rank_0();
    hear_addresses();
    for (int rank = 1; rank < rank_; ++rank) connect_to_rank(rank);
    accept_others(*listener);
  }

  void knock_at_rank_0() {
    while (!socket_of(0).is_open()) {
      for (int port = place_.port; port < place_.port + ports_tried; ++port) {
        if (introduced_to_rank_0(port)) return;
      }
      if (is_late()) give_up("rank 0 does not answer", place_);
      std::this_thread::sleep_for(pause);
    }
  }

  bool introduced_to_rank_0(int port) {
    auto socket = connect_to(place_.host, port, answer_time);
    Hello answer;
    if (!socket || !write_all(*socket, bytes_of(hello_), answer_time) ||
        !read_all(*socket, bytes_of(answer), answer_time)) {
      return false;
    }
    if (answer.rank != 0 || !belongs(hello_, answer)) return false;
    socket_of(0) = std::move(*socket);
    return true;
  }

  void hear_addresses() {
    std::uint64_t size = 0;
    const auto left = [&] {
      return std::chrono::duration_cast<std::chrono::milliseconds>(
          std::max(deadline_ - Clock::now(), Clock::duration(answer_time)));
    };
    std::string table;
    bool heard = read_all(socket_of(0), bytes_of(size), left());
    if (heard) {
      table.resize(size);
      heard = read_all(socket_of(0), std::as_writable_bytes(std::span(table)), left());
    }
    if (!heard) give_up("rank 0 has gone before all have met", place_);
    Unpacker unpacker(table);
    for (Guest& guest : guests_) {
      guest.address = unpacker.get_bytes();
      guest.port = unpacker.get<int>();
      guest.machine = unpacker.get_bytes();
    }
  }

  /// Rank 0 sees its neighbours at addresses that mean something on its machine only; there they
  /// are reached as rank 0 is.
  void connect_to_rank(int rank) {
    const Guest& guest = guest_of(rank);
    const bool is_local = guest.address.starts_with("127.") || guest.address == "::1";
    const std::string& host = is_local ? place_.host : guest.address;
    auto socket = connect_to(host, guest.port, answer_time);
    Hello answer;
    if (!socket || !write_all(*socket, bytes_of(hello_), answer_time) ||
        !read_all(*socket, bytes_of(answer), std::chrono::milliseconds(30s)) ||
        answer.rank != rank) {
      throw Error(ErrorKind::execution,
                  concat("rank ", rank_, " cannot reach rank ", rank, " at ", host, ", port ",
                         guest.port, "; is a firewall between them?"));
    }
    socket_of(rank) = std::move(*socket);
  }

  const MeetingPlace& place_;
  int rank_;
  Clock::time_point deadline_;
  Hello hello_;
  std::vector<Guest> guests_;
  std::vector<Socket> sockets_;
};

}  // namespace

MeetingPlace meeting_place_of_environment() {
  const char* host = std::getenv("MASTER_ADDR");
  const char* port = std::getenv("MASTER_PORT");
  const char* run = std::getenv("TORCHELASTIC_RUN_ID");
  MeetingPlace place{.host = host == nullptr ? "" : host, .run = run == nullptr ? "" : run};
  const std::string_view digits = port == nullptr ? "" : port;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), place.port);
  const bool is_number = error == std::errc{} && end == digits.data() + digits.size();
  if (place.host.empty() || !is_number || place.port < 1 || place.port > 65535 - ports_tried) {
    throw Error(ErrorKind::usage,
                concat("RANK and WORLD_SIZE are set, but MASTER_ADDR=", place.host,
                       " and MASTER_PORT=", digits,
                       " are no host and port where rank 0 can be met; torchrun sets all four"));
  }
  return place;
}

Connections connect_all(const MeetingPlace& place, int rank, int processes,
                        std::chrono::seconds patience) {
  return Meeting(place, rank, processes, patience).run();
}

}  // namespace stagecraft::tcp
