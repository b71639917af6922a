#include "executor/backends/cuda/token_lists.hpp"

#include <algorithm>

namespace stagecraft::cuda {

TokenLists token_lists(std::span<const std::int32_t> tokens, std::int64_t first,
                       std::int64_t count) {
  TokenLists lists;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (first <= tokens[i] && tokens[i] < first + count) {
      lists.rows.push_back(static_cast<std::int32_t>(i));
    }
  }
  const auto token_at = [&](std::int32_t row) { return tokens[static_cast<std::size_t>(row)]; };
  std::ranges::stable_sort(lists.rows, {}, token_at);
  for (std::size_t i = 0; i < lists.rows.size(); ++i) {
    const std::int32_t token = token_at(lists.rows[i]);
    if (i > 0 && token == token_at(lists.rows[i - 1])) continue;
    lists.places.push_back(static_cast<std::int32_t>(token - first));
    lists.starts.push_back(static_cast<std::int32_t>(i));
  }
  lists.starts.push_back(static_cast<std::int32_t>(lists.rows.size()));
  const std::size_t most = tokens.size();
  lists.places.resize(most);
  lists.starts.resize(most + 1, lists.starts.back());
  lists.rows.resize(most);
  return lists;
}

}  // namespace stagecraft::cuda
