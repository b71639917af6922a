#include "executor/transports/tcp/carrier.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "executor/transports/processes.hpp"
#include "executor/transports/tcp/mailbox.hpp"
#include "executor/transports/tcp/rendezvous.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft::tcp {

namespace {

using namespace std::chrono_literals;
using processes::Completion;

constexpr auto meeting_patience = 120s;  ///< launchers may start hosts one after the other, …
constexpr auto local_patience = 30s;     ///< … but the processes of one machine at once
/// With those that have come: for the first words of all, before anybody loads anything.
constexpr auto first_patience = 30s;
constexpr int first_spaces = 2;
constexpr auto parting_patience = 5s;
constexpr std::size_t most_at_once = std::size_t{8} << 20;  ///< from one peer, before the next
/// Longer messages wait at the sender: else they would fill the memory of who is behind.
constexpr std::size_t longest_unasked = std::size_t{64} << 10;
constexpr std::int32_t opening_space = -1;

/// A frame, and what goes behind it, that wait for their turn or are on their way.
struct Outgoing {
  Frame frame;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t sent = 0;  ///< of frame and data
};

struct Peer {
  Socket socket;
  std::deque<Outgoing> out;
  Frame frame;  ///< of what comes in
  std::size_t of_frame = 0;
  std::shared_ptr<Mailbox::Letter> letter;
  std::size_t of_letter = 0;
  std::map<std::int64_t, Outgoing> offered;  ///< what waits for a grant, by number
  std::map<std::int64_t, std::shared_ptr<Mailbox::Letter>> granted;  ///< whose bytes will come
  bool has_parted = false;
};

/// Where the next bytes go.
std::span<std::byte> wanted(Peer& peer) {
  if (!peer.letter) {
    return std::as_writable_bytes(std::span(&peer.frame, 1)).subspan(peer.of_frame);
  }
  return std::span(peer.letter->data, peer.letter->frame.bytes).subspan(peer.of_letter);
}

[[noreturn]] void refuse_frame(int rank, const std::string& why) {
  throw Error(ErrorKind::execution, concat("rank ", rank, " sent what is no message of this run (",
                                           why, "); does it run the same program?"));
}

/// Takes the entry of this number out of what the peer and this process have agreed on.
template <class Value>
Value taken_out(std::map<std::int64_t, Value>& agreed, const Frame& frame, int rank) {
  auto found = agreed.extract(frame.number);
  if (found.empty()) refuse_frame(rank, concat("an answer to message ", frame.number));
  return std::move(found.mapped());
}

class TcpCarrier final : public processes::Carrier {
 public:
  TcpCarrier(int rank, Connections connections);

  int rank() const override { return rank_; }
  int processes() const override { return static_cast<int>(peers_.size()); }
  std::string library() const override { return "TCP"; }
  int processes_here() const override {
    return static_cast<int>(std::ranges::count(machines_, machines_[index(rank_)]));
  }
  bool shares_machine_of_rank_0() const override {
    return machines_[index(rank_)] == machines_.front();
  }

  int open_space(int ranks, bool from_anybody) override;
  long send(int space, int peer, int tag, const void* data, std::size_t bytes) override;
  long receive(int space, int peer, int tag, void* data, std::size_t bytes) override;
  void cancel(long number) override { mailbox_.cancel(number); }
  std::vector<Completion> test() override;
  std::vector<int> take_lost() override { return std::exchange(lost_, {}); }
  void finish() override;
  void abort(int) override { peers_.clear(); }

 private:
  void wait_for(const std::map<long, int>& awaited);
  void deliver_to_self(const Frame& frame, const void* data);
  void put(Peer& peer, const Outgoing& message);
  void grant(const std::shared_ptr<Mailbox::Letter>& letter);
  void hear(int rank);
  void write(Peer& peer);
  void note_sent(const Outgoing& message);
  void read(int rank);
  void lose(int rank);
  void exchange_for(std::chrono::milliseconds patience);

  int rank_;
  std::vector<std::string> machines_;
  std::vector<Peer> peers_;  ///< by rank; the own one has no socket
  Mailbox mailbox_;
  std::vector<Completion> completed_;  ///< since the last test
  std::vector<int> lost_;              ///< since somebody asked
  int spaces_ = 0;
  char nothing_ = 0;  ///< what spaces are opened with; it outlives a meeting that failed
  long next_number_ = 0;
};

TcpCarrier::TcpCarrier(int rank, Connections connections)
    : rank_(rank), machines_(std::move(connections.machines)) {
  for (Socket& socket : connections.sockets) peers_.emplace_back().socket = std::move(socket);
}

/// Frames name their space, so nothing has to be made for it. But nobody uses it, or ends it,
/// before all are there.
int TcpCarrier::open_space(int ranks, bool) {
  const int space = spaces_++;
  std::map<long, int> numbers;
  const auto hear = [&](int peer) {
    numbers[receive(opening_space, peer, space, &nothing_, 1)] = peer;
  };
  const auto tell = [&](int peer) {
    numbers[send(opening_space, peer, space, &nothing_, 1)] = peer;
  };
  for (int rank = 1; rank_ == 0 && rank < ranks; ++rank) hear(rank);
  if (rank_ > 0 && rank_ < ranks) tell(0);
  wait_for(numbers);
  for (int rank = 1; rank_ == 0 && rank < ranks; ++rank) tell(rank);
  if (rank_ > 0 && rank_ < ranks) hear(0);
  wait_for(numbers);
  return space;
}

/// The peers of messages, by their number.
void TcpCarrier::wait_for(const std::map<long, int>& awaited) {
  const auto next = [&] {
    return std::ranges::find_if(awaited, [&](const auto& message) {
      return std::ranges::count(completed_, message.first, &Completion::number) == 0;
    });
  };
  const std::chrono::seconds patience = spaces_ <= first_spaces ? first_patience : meeting_patience;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (auto missing = next(); missing != awaited.end(); missing = next()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw PeerLost(concat("rank ", missing->second, " has been silent for ", patience.count(),
                            " s: was its process stopped?"));
    }
    if (!lost_.empty()) throw PeerLost(concat("rank ", lost_.front(), " has gone"));
    exchange_for(1ms);
    std::ranges::copy(mailbox_.take_completed(), std::back_inserter(completed_));
  }
}

long TcpCarrier::send(int space, int peer, int tag, const void* data, std::size_t bytes) {
  const long number = next_number_++;
  Outgoing message{.frame = {.space = space, .tag = tag, .number = number, .bytes = bytes},
                   .data = static_cast<const std::byte*>(data),
                   .bytes = bytes};
  Peer& to = peers_[index(peer)];
  if (peer == rank_) {
    deliver_to_self(message.frame, data);
    completed_.push_back({.number = number, .bytes = bytes});
  } else if (!to.socket.is_open()) {
    note_sent(message);
  } else if (bytes > longest_unasked) {
    message.frame.kind = Kind::offer;
    to.offered[number] = message;
    put(to, {.frame = message.frame});
  } else {
    put(to, message);
  }
  return number;
}

void TcpCarrier::deliver_to_self(const Frame& frame, const void* data) {
  const auto letter = mailbox_.announce(rank_, frame);
  std::copy_n(static_cast<const std::byte*>(data), frame.bytes, letter->open());
  mailbox_.end(*letter);
}

long TcpCarrier::receive(int space, int peer, int tag, void* data, std::size_t bytes) {
  const long number = next_number_++;
  const auto letter = mailbox_.receive(number, space, peer, tag, data, bytes);
  if (letter && letter->frame.kind == Kind::offer) grant(letter);
  return number;
}

void TcpCarrier::grant(const std::shared_ptr<Mailbox::Letter>& letter) {
  Peer& peer = peers_[index(letter->from)];
  if (letter->frame.bytes > letter->room) {
    refuse_frame(letter->from,
                 concat(letter->frame.bytes, " bytes where ", letter->room, " were expected"));
  }
  letter->open();
  peer.granted[letter->frame.number] = letter;
  put(peer, {.frame = {.kind = Kind::grant, .number = letter->frame.number}});
}

void TcpCarrier::put(Peer& peer, const Outgoing& message) {
  peer.out.push_back(message);
  if (peer.out.size() == 1) write(peer);
}

/// As much as the connection takes. What has gone wrong shows when it is read.
void TcpCarrier::write(Peer& peer) {
  while (!peer.out.empty() && peer.socket.is_open()) {
    Outgoing& message = peer.out.front();
    std::array<iovec, 2> parts{};
    std::size_t count = 0;
    if (message.sent < sizeof(Frame)) {
      parts[count++] = {.iov_base = reinterpret_cast<std::byte*>(&message.frame) + message.sent,
                        .iov_len = sizeof(Frame) - message.sent};
    }
    const std::size_t of_data = message.sent - std::min(message.sent, sizeof(Frame));
    if (of_data < message.bytes) {
      parts[count++] = {.iov_base = const_cast<std::byte*>(message.data) + of_data,
                        .iov_len = message.bytes - of_data};
    }
    msghdr header{};
    header.msg_iov = parts.data();
    header.msg_iovlen = count;
    const ssize_t sent = sendmsg(peer.socket.descriptor(), &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    message.sent += static_cast<std::size_t>(sent);
    if (message.sent < sizeof(Frame) + message.bytes) continue;
    note_sent(message);
    peer.out.pop_front();
  }
}

void TcpCarrier::read(int rank) {
  Peer& peer = peers_[index(rank)];
  for (std::size_t total = 0; total < most_at_once;) {
    const std::span<std::byte> place = wanted(peer);
    const ssize_t came = recv(peer.socket.descriptor(), place.data(), place.size(), 0);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0 && errno == EAGAIN) return;
    if (came <= 0) return lose(rank);
    total += static_cast<std::size_t>(came);
    (peer.letter ? peer.of_letter : peer.of_frame) += static_cast<std::size_t>(came);
    if (!peer.letter && peer.of_frame == sizeof(Frame)) hear(rank);
    if (!peer.letter || peer.of_letter < peer.letter->frame.bytes) continue;
    mailbox_.end(*std::exchange(peer.letter, nullptr));
    peer.of_frame = 0;
  }
}

/// A whole frame. Nothing is allocated for it before its length is known to be one that somebody
/// waits for, or short.
void TcpCarrier::hear(int rank) {
  Peer& peer = peers_[index(rank)];
  const Frame& frame = peer.frame;
  peer.of_frame = 0;
  peer.of_letter = 0;
  switch (frame.kind) {
    case Kind::message:
      if (frame.bytes > longest_unasked) {
        refuse_frame(rank, concat(frame.bytes, " bytes that nobody asked for"));
      }
      peer.letter = mailbox_.announce(rank, frame);
      peer.letter->open();
      break;
    case Kind::offer: {
      const auto letter = mailbox_.announce(rank, frame);
      if (letter->receive >= 0) grant(letter);
      break;
    }
    case Kind::grant: {
      Outgoing message = taken_out(peer.offered, frame, rank);
      message.frame.kind = Kind::content;
      put(peer, message);
      break;
    }
    case Kind::content: {
      const auto letter = taken_out(peer.granted, frame, rank);
      if (letter->frame.bytes != frame.bytes) {
        refuse_frame(rank, concat(frame.bytes, " bytes instead of ", letter->frame.bytes));
      }
      peer.letter = letter;
      break;
    }
    case Kind::farewell: peer.has_parted = true; break;
    default: refuse_frame(rank, concat("kind ", static_cast<int>(frame.kind)));
  }
}

/// Nothing will read what is on its way there.
void TcpCarrier::lose(int rank) {
  Peer& peer = peers_[index(rank)];
  peer.socket = Socket();
  for (const Outgoing& message : std::exchange(peer.out, {})) note_sent(message);
  for (const auto& [number, message] : std::exchange(peer.offered, {})) note_sent(message);
  if (!peer.has_parted) lost_.push_back(rank);
}

void TcpCarrier::note_sent(const Outgoing& message) {
  const Frame& frame = message.frame;
  if (message.data == nullptr && frame.kind != Kind::message) return;
  completed_.push_back({.number = frame.number, .bytes = frame.bytes});
}

/// What peers have and can take by then, once any of them has or can.
void TcpCarrier::exchange_for(std::chrono::milliseconds patience) {
  std::vector<pollfd> entries;
  std::vector<int> ranks;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (!peers_[i].socket.is_open()) continue;
    const short events = peers_[i].out.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({.fd = peers_[i].socket.descriptor(), .events = events, .revents = 0});
    ranks.push_back(static_cast<int>(i));
  }
  const int ready = poll(entries.data(), entries.size(), static_cast<int>(patience.count()));
  for (std::size_t i = 0; ready > 0 && i < entries.size(); ++i) {
    if ((entries[i].revents & POLLOUT) != 0) write(peers_[index(ranks[i])]);
    if ((entries[i].revents & ~POLLOUT) != 0) read(ranks[i]);
  }
}

std::vector<Completion> TcpCarrier::test() {
  exchange_for(0ms);
  std::vector<Completion> completed = std::exchange(completed_, {});
  std::ranges::copy(mailbox_.take_completed(), std::back_inserter(completed));
  return completed;
}

/// Says farewell, and hears everybody else's, so that no connection is cut while something is on
/// it.
void TcpCarrier::finish() {
  for (Peer& peer : peers_) {
    if (peer.socket.is_open()) put(peer, {.frame = {.kind = Kind::farewell}});
  }
  const auto deadline = std::chrono::steady_clock::now() + parting_patience;
  const auto is_over = [](const Peer& peer) {
    return !peer.socket.is_open() || (peer.has_parted && peer.out.empty());
  };
  while (!std::ranges::all_of(peers_, is_over) && std::chrono::steady_clock::now() < deadline) {
    exchange_for(10ms);
  }
  peers_.clear();
}

}  // namespace

std::unique_ptr<processes::Carrier> make_carrier() {
  const auto started = launch();
  if (!started) {
    throw Error(ErrorKind::usage,
                "--transport tcp: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are not set");
  }
  const MeetingPlace place = meeting_place_of_environment();
  // Who has a secret was started by a launcher, not by hand in one window after the other.
  const bool all_start_at_once = is_loopback(place.host) && !place.secret.empty();
  const std::chrono::seconds patience = all_start_at_once ? local_patience : meeting_patience;
  return make_carrier(started->rank,
                      connect_all(place, started->rank, started->processes, patience));
}

std::unique_ptr<processes::Carrier> make_carrier(int rank, Connections connections) {
  return std::make_unique<TcpCarrier>(rank, std::move(connections));
}

}  // namespace stagecraft::tcp
