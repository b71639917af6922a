// Text of a shell script, each piece with the place it was written at, and with holes where only
// the cluster knows what stands there.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::shell {

/// Where a character was written; lines and columns count from 1, files in the order of reading.
struct Place {
  int file = 0;
  int line = 0;
  int column = 0;
  bool operator==(const Place&) const = default;
};

/// Why a piece of a text is not known.
struct Unknown {
  std::string name;        ///< the variable that would settle it, or the expression itself
  std::string expression;  ///< as it is written: "$WORLD_SIZE", "$(nvidia-smi -L | wc -l)"
  Place place;
  /// A variable that nobody has set: empty where a script asks whether it is.
  bool is_unset = false;
  std::vector<int> causes;  ///< other unknowns that this follows from; empty: itself
  /// What stands here instead, either way a condition may go.
  std::vector<std::string> alternatives;
};

/// Characters with places. A hole is four characters that occur in no script, so that texts with
/// holes are cut, joined and read again like any other.
class Text {
 public:
  Text() = default;
  Text(std::string_view characters, Place place) { append(characters, place); }
  static Text hole(int unknown, Place place);

  const std::string& characters() const { return characters_; }
  bool empty() const { return characters_.empty(); }
  std::size_t size() const { return characters_.size(); }
  /// What it takes to copy it, in bytes.
  std::size_t weight() const { return characters_.size() + sizeof(Origin) * origins_.size(); }
  char operator[](std::size_t at) const { return characters_[at]; }
  /// Of the character at `at`; of an empty text, where it was written.
  Place place(std::size_t at = 0) const;

  /// The characters begin at `place` and are on one line, but for those behind a line's end.
  void append(std::string_view characters, Place place);
  void append(const Text& text);
  Text piece(std::size_t begin, std::size_t count = std::string::npos) const;

  bool is_known() const { return characters_.find(hole_mark) == std::string::npos; }
  /// The unknowns that its holes stand for, in order.
  std::vector<int> unknowns() const;
  /// The unknown, if the text is a hole and nothing else; otherwise -1.
  int only_unknown() const;

  static constexpr char hole_mark = '\x01';
  static constexpr std::size_t hole_size = 4;

 private:
  struct Origin {
    std::size_t begin = 0;
    Place place;
  };
  std::string characters_;
  std::vector<Origin> origins_;  ///< in the order of `begin`
  Place end_;                    ///< behind the last character
};

/// The unknown of the hole that begins at `at`.
int hole_at(std::string_view characters, std::size_t at);

}  // namespace stagecraft::shell
