#include "executor/transports/processes/messenger.hpp"

#include <cstdint>
#include <utility>

#include "profiles/machine_memory.hpp"
#include "profiles/units.hpp"

namespace stagecraft::processes {

namespace {

/// Memory of its own, in pieces that travel.
struct Text {
  explicit Text(std::string bytes) : text(std::make_shared<std::string>(std::move(bytes))) {}
  explicit Text(std::uint64_t size)
      : text(std::make_shared<std::string>(static_cast<std::size_t>(size), '\0')) {}

  Piece piece(int peer, int tag) const {
    return {.peer = peer, .tag = tag, .data = text->data(), .bytes = text->size(), .owner = text};
  }

  std::shared_ptr<std::string> text;
};

struct Number {
  explicit Number(std::uint64_t value) : number(std::make_shared<std::uint64_t>(value)) {}

  Piece piece(int peer, int tag) const {
    return {
        .peer = peer, .tag = tag, .data = number.get(), .bytes = sizeof *number, .owner = number};
  }

  std::shared_ptr<std::uint64_t> number;
};

/// What another process announces is believed as far as this machine could hold it.
std::uint64_t believed(std::uint64_t size, int rank) {
  const auto most = static_cast<std::uint64_t>(usable_memory());
  if (size <= most) return size;
  throw Error(ErrorKind::execution,
              concat("rank ", rank, " announces a message of ", size,
                     " bytes, and this machine has ", format_bytes(static_cast<Bytes>(most)),
                     " of memory left; does it run the same program?"));
}

constexpr const char* cut_short = "a message was cut short on its way";

}  // namespace

Piece piece_of(const Tensor& tensor, int peer, int tag) {
  return {.peer = peer,
          .tag = tag,
          .data = tensor.storage.get(),
          .bytes = static_cast<std::size_t>(tensor.bytes()),
          .owner = tensor.storage};
}

void Messenger::send(const Piece& piece, const std::function<void()>& done) const {
  const long number =
      progress_.carrier().send(space_, piece.peer, piece.tag, piece.data, piece.bytes);
  progress_.watch(number, [done, owner = piece.owner](std::size_t) { done(); });
}

long Messenger::receive(const Piece& piece, const std::function<void(bool)>& done) const {
  const long number =
      progress_.carrier().receive(space_, piece.peer, piece.tag, piece.data, piece.bytes);
  progress_.watch(number, [done, bytes = piece.bytes, owner = piece.owner](std::size_t came) {
    done(came == bytes);
  });
  return number;
}

void Conversation::exchange(const std::vector<Piece>& sends, const std::vector<Piece>& receives,
                            const std::string& otherwise) const {
  if (sends.empty() && receives.empty()) return;
  struct State {
    std::size_t left;
    bool whole = true;
  };
  const auto state = std::make_shared<State>(State{.left = sends.size() + receives.size()});
  const auto one_done = [state, world = world_](bool whole) {
    const std::lock_guard lock(world->mutex);
    if (!whole) state->whole = false;
    if (--state->left == 0) world->changed.notify_all();
  };
  progress_->soon([=, messenger = messenger_] {
    for (const Piece& piece : receives) messenger->receive(piece, one_done);
    for (const Piece& piece : sends) messenger->send(piece, [one_done] { one_done(true); });
  });
  Lock lock(world_->mutex);
  world_->wait(lock, [&] { return state->left == 0; });
  if (!state->whole) throw Error(ErrorKind::execution, otherwise);
}

std::vector<std::string> Conversation::gather(const std::string& said, int tag) const {
  if (rank_ != 0) {
    const Text text(said);
    exchange({Number(said.size()).piece(0, tag), text.piece(0, tag + 1)}, {}, cut_short);
    return {};
  }
  std::vector<Number> sizes;
  std::vector<Piece> pieces;
  for (int rank = 1; rank < ranks_; ++rank)
    pieces.push_back(sizes.emplace_back(0).piece(rank, tag));
  exchange({}, pieces, cut_short);
  std::vector<Text> texts;
  pieces.clear();
  for (int rank = 1; rank < ranks_; ++rank) {
    const std::uint64_t size = believed(*sizes[static_cast<std::size_t>(rank - 1)].number, rank);
    pieces.push_back(texts.emplace_back(size).piece(rank, tag + 1));
  }
  exchange({}, pieces, cut_short);
  std::vector<std::string> all{said};
  for (const Text& text : texts) all.push_back(std::move(*text.text));
  return all;
}

std::string Conversation::broadcast(std::string said, int tag) const {
  if (rank_ != 0) {
    const Number size(0);
    exchange({}, {size.piece(0, tag)}, cut_short);
    const Text text(believed(*size.number, 0));
    exchange({}, {text.piece(0, tag + 1)}, cut_short);
    return std::move(*text.text);
  }
  const Number size(said.size());
  const Text text(said);
  std::vector<Piece> pieces;
  for (int rank = 1; rank < ranks_; ++rank) {
    pieces.push_back(size.piece(rank, tag));
    pieces.push_back(text.piece(rank, tag + 1));
  }
  exchange(pieces, {}, cut_short);
  return said;
}

void Conversation::barrier(int tag) const {
  const Number nothing(0);
  std::vector<Piece> others;
  for (int rank = 1; rank_ == 0 && rank < ranks_; ++rank) {
    others.push_back(Number(0).piece(rank, tag));
  }
  const std::vector<Piece> first{nothing.piece(0, tag)};
  exchange(rank_ == 0 ? std::vector<Piece>{} : first, others, cut_short);
  exchange(others, rank_ == 0 ? std::vector<Piece>{} : first, cut_short);
}

}  // namespace stagecraft::processes
