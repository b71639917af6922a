#include "executor/backends/cuda/pending_zeros.hpp"

#include <algorithm>
#include <iterator>

namespace stagecraft::cuda {

namespace {

std::uintptr_t address(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

/// The bytes [begin, end) of a piece that begins at `first`.
PendingZeros::Piece part(const PendingZeros::Piece& piece, std::uintptr_t first,
                         std::uintptr_t begin, std::uintptr_t end) {
  void* data = static_cast<std::byte*>(piece.data.get()) + (begin - first);
  return {.data = {piece.data, data}, .bytes = static_cast<Bytes>(end - begin)};
}

}  // namespace

void PendingZeros::add(const std::shared_ptr<void>& data, Bytes bytes) {
  if (bytes == 0) return;
  const std::uintptr_t begin = address(data.get());
  remove(begin, begin + static_cast<std::uintptr_t>(bytes));
  pieces_[begin] = {.data = data, .bytes = bytes};
}

bool PendingZeros::take(const void* data, Bytes bytes) {
  const std::uintptr_t begin = address(data), end = begin + static_cast<std::uintptr_t>(bytes);
  auto piece = pieces_.upper_bound(begin);
  if (piece == pieces_.begin()) return false;
  --piece;
  if (piece->first + static_cast<std::uintptr_t>(piece->second.bytes) < end) return false;
  remove(begin, end);
  return true;
}

std::vector<PendingZeros::Piece> PendingZeros::settle(const void* data, Bytes bytes) {
  std::vector<Piece> found;
  if (pieces_.empty() || bytes == 0) return found;
  const std::uintptr_t begin = address(data), end = begin + static_cast<std::uintptr_t>(bytes);
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin()) --piece;
  for (; piece != pieces_.end() && piece->first < end; ++piece) {
    const std::uintptr_t last = piece->first + static_cast<std::uintptr_t>(piece->second.bytes);
    const std::uintptr_t from = std::max(begin, piece->first), to = std::min(end, last);
    if (from < to) found.push_back(part(piece->second, piece->first, from, to));
  }
  remove(begin, end);
  return found;
}

/// What is left of a piece on either side stays.
void PendingZeros::remove(std::uintptr_t begin, std::uintptr_t end) {
  auto piece = pieces_.upper_bound(begin);
  if (piece != pieces_.begin()) --piece;
  while (piece != pieces_.end() && piece->first < end) {
    const auto [first, whole] = *piece;
    const std::uintptr_t last = first + static_cast<std::uintptr_t>(whole.bytes);
    if (last <= begin) {
      ++piece;
      continue;
    }
    piece = pieces_.erase(piece);
    if (first < begin) pieces_[first] = part(whole, first, first, begin);
    if (end < last) pieces_[end] = part(whole, first, end, last);
  }
}

}  // namespace stagecraft::cuda
