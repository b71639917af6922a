// The implementation of `Json`: a strict parser that records the place of every value in the text.
// For profiles/*.cpp only.

#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace stagecraft {

/// Counts from 1; columns count characters, not bytes.
struct Position {
  int line = 1;
  int column = 1;
};

/// The line and column of a byte of the text.
Position position_at(std::string_view text, std::size_t byte);

/// Parses JSON; throws Error (input) with the place of bad syntax, of a duplicate member, of a
/// number beyond double and of nesting too deep to be ours.
nlohmann::ordered_json parse_document(std::string_view text, const std::string& file);

/// Where `value`, a value inside `root`, begins in the text that `root` was parsed from.
Position position_of(std::string_view text, const nlohmann::ordered_json& root,
                     const nlohmann::ordered_json* value);

}  // namespace stagecraft
