// Tokens in order, for a gradient of their table that is added up the same way every time.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace stagecraft::cuda {

/// For each distinct token that a part of the table holds: its row there, and the places at which
/// it stands, ascending. List i is rows[starts[i]] up to rows[starts[i + 1]].
struct TokenLists {
  std::vector<std::int32_t> places;
  std::vector<std::int32_t> starts;
  std::vector<std::int32_t> rows;
};

/// The table holds the tokens [first, first + count). Behind the lists come empty ones, so that
/// there are as many as tokens, whichever they are: launches then have the same arguments at every
/// step.
TokenLists token_lists(std::span<const std::int32_t> tokens, std::int64_t first,
                       std::int64_t count);

}  // namespace stagecraft::cuda
