#include "executor/transports/tcp/mailbox.hpp"

#include <algorithm>
#include <cstring>

namespace stagecraft::tcp {

std::byte* Mailbox::Letter::open() {
  if (!fits()) own.resize(frame.bytes);
  return data = fits() ? to : own.data();
}

std::shared_ptr<Mailbox::Letter> Mailbox::announce(int from, const Frame& frame) {
  auto letter = std::make_shared<Letter>(Letter{.from = from, .frame = frame});
  const Key key{frame.space, frame.tag};
  std::deque<Awaited>& waiting = awaited_[key];
  const auto first = std::ranges::find_if(waiting, [&](const Awaited& one) {
    return one.peer == from || one.peer == processes::any_peer;
  });
  if (first == waiting.end()) {
    unclaimed_[key].push_back(letter);
  } else {
    letter->receive = first->number;
    letter->to = first->data;
    letter->room = first->bytes;
    waiting.erase(first);
  }
  return letter;
}

std::shared_ptr<Mailbox::Letter> Mailbox::receive(long number, int space, int peer, int tag,
                                                  void* data, std::size_t bytes) {
  std::deque<std::shared_ptr<Letter>>& letters = unclaimed_[{space, tag}];
  const auto first = std::ranges::find_if(letters, [&](const auto& letter) {
    return peer == letter->from || peer == processes::any_peer;
  });
  if (first == letters.end()) {
    awaited_[{space, tag}].push_back(
        {.number = number, .peer = peer, .data = static_cast<std::byte*>(data), .bytes = bytes});
    return nullptr;
  }
  std::shared_ptr<Letter> letter = *first;
  letters.erase(first);
  letter->receive = number;
  letter->to = static_cast<std::byte*>(data);
  letter->room = bytes;
  if (letter->is_whole) end(*letter);
  return letter;
}

void Mailbox::end(Letter& letter) {
  letter.is_whole = true;
  if (letter.receive < 0) return;
  if (letter.data != letter.to && letter.frame.bytes > 0 && letter.room > 0) {
    std::memcpy(letter.to, letter.data, std::min<std::size_t>(letter.frame.bytes, letter.room));
  }
  completed_.push_back({.number = letter.receive, .bytes = letter.frame.bytes});
}

void Mailbox::cancel(long number) {
  for (auto& [key, waiting] : awaited_) {
    std::erase_if(waiting, [&](const Awaited& one) { return one.number == number; });
  }
}

}  // namespace stagecraft::tcp
