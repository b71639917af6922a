#include "executor/transports/mpi/messenger.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace stagecraft::mpi {

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

constexpr const char* cut_short = "MPI has cut a message short";

}  // namespace

Manner manner_of_environment() {
  Manner manner;
  const char* synchronous = std::getenv("STAGECRAFT_MPI_SYNCHRONOUS");
  manner.synchronous = synchronous != nullptr && *synchronous == '1';
  if (const char* longest = std::getenv("STAGECRAFT_MPI_LONGEST")) {
    manner.longest =
        std::clamp<std::size_t>(std::strtoull(longest, nullptr, 10), 1, std::size_t{1} << 30);
  }
  return manner;
}

void Messenger::send(const Piece& piece, const std::function<void()>& done) const {
  const auto left = std::make_shared<std::size_t>(piece.bytes / manner_.longest + 1);
  for (std::size_t first = 0; first <= piece.bytes; first += manner_.longest) {
    const std::size_t bytes = std::min(manner_.longest, piece.bytes - first);
    MPI_Request request = MPI_REQUEST_NULL;
    check((manner_.synchronous ? MPI_Issend : MPI_Isend)(
              static_cast<std::byte*>(piece.data) + first, static_cast<int>(bytes), MPI_BYTE,
              piece.peer, piece.tag, communicator_, &request),
          "send a message");
    progress_.watch(request, [left, done, owner = piece.owner](const MPI_Status&, int code) {
      check(code, "send a message");
      if (--*left == 0) done();
    });
  }
}

long Messenger::receive(const Piece& piece, const std::function<void(bool)>& done) const {
  struct State {
    std::size_t left;
    bool whole = true;
  };
  const auto state = std::make_shared<State>(State{.left = piece.bytes / manner_.longest + 1});
  long number = 0;
  for (std::size_t first = 0; first <= piece.bytes; first += manner_.longest) {
    const std::size_t bytes = std::min(manner_.longest, piece.bytes - first);
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Irecv(static_cast<std::byte*>(piece.data) + first, static_cast<int>(bytes), MPI_BYTE,
                    piece.peer, piece.tag, communicator_, &request),
          "receive a message");
    number = progress_.watch(
        request, [state, done, bytes, owner = piece.owner](const MPI_Status& status, int code) {
          int error_class = MPI_SUCCESS;
          if (code != MPI_SUCCESS) MPI_Error_class(code, &error_class);
          if (error_class != MPI_ERR_TRUNCATE) check(code, "receive a message");
          int came = 0;
          MPI_Get_count(&status, MPI_BYTE, &came);
          if (code != MPI_SUCCESS || static_cast<std::size_t>(came) != bytes) state->whole = false;
          if (--state->left == 0) done(state->whole);
        });
  }
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
    const std::uint64_t size = *sizes[static_cast<std::size_t>(rank - 1)].number;
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
    const Text text(*size.number);
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

}  // namespace stagecraft::mpi
