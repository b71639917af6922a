// Reading cells, more strictly than torch does: there "2F0xyz" is 2F0.

#include "simulator/views/torch/actions.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft::torch {

namespace {

constexpr std::size_t most_digits = 6;
constexpr std::string_view expected_action =
    "expected an action such as 0F3, 1SEND_B2 or (0F3;1B2)OVERLAP_F_B";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string known_words() {
  std::vector<std::string> known;
  for (const Word& word : words) known.emplace_back(word.text);
  return join_words(known);
}

/// One cell, from left to right.
class CellReader {
 public:
  CellReader(const Rows& rows, Action place, std::string_view cell)
      : rows_(rows), place_(place), cell_(cell), rest_(cell) {}

  void append_to(std::vector<Action>& actions) {
    if (!take("(")) {
      actions.push_back(action());
    } else {
      actions.push_back(action());
      actions.back().overlaps_next = true;
      if (!take(";")) fail("expected ';' and the action that overlaps");
      actions.push_back(action());
      if (take(";")) fail("two actions overlap, a forward and a backward, not more");
      if (!take(")")) fail("expected ')' after the second action");
      if (!take(overlap)) fail(concat("expected ", overlap, " after the pair"));
      require_pair(actions[actions.size() - 2], actions.back());
    }
    if (!rest_.empty()) fail(concat("expected nothing after \"", before(), "\""));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    rows_.fail_at(place_, concat('"', cell_, "\": ", what));
  }

  std::string_view before() const { return cell_.substr(0, cell_.size() - rest_.size()); }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  std::optional<int> number() {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_digit);
    const auto digits = static_cast<std::size_t>(end - rest_.begin());
    if (digits == 0) return {};
    if (digits > most_digits) fail("numbers have at most 6 digits");
    const int value = std::stoi(std::string(rest_.substr(0, digits)));
    rest_.remove_prefix(digits);
    return value;
  }

  const Word& word() {
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), [](char c) {
      return c == '_' || std::isupper(static_cast<unsigned char>(c)) != 0;
    });
    const std::string_view text = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    const auto found = std::find_if(words.begin(), words.end(),
                                    [&](const Word& word) { return word.text == text; });
    if (found == words.end()) {
      fail(text.empty() ? std::string(expected_action)
                        : concat("unknown kind \"", text, "\"; known kinds: ", known_words()));
    }
    rest_.remove_prefix(text.size());
    return *found;
  }

  Action action() {
    Action result = place_;
    const std::optional<int> stage = number();
    if (!stage) fail(std::string(expected_action));
    const Word& word = this->word();
    const std::optional<int> microbatch = number();
    if (word.takes_microbatch != microbatch.has_value()) {
      fail(word.takes_microbatch
               ? concat(word.text, " needs a microbatch, as in ", action_text(word.kind, *stage, 0))
               : concat(word.text, " takes no microbatch"));
    }
    result.kind = word.kind;
    result.stage = *stage;
    result.microbatch = microbatch.value_or(0);
    return result;
  }

  void require_pair(const Action& first, const Action& second) const {
    if (first.kind == Kind::forward && second.kind == Kind::backward) return;
    fail("a forward (F) overlaps a whole backward (B), in this order");
  }

  const Rows& rows_;
  const Action place_;
  const std::string_view cell_;
  std::string_view rest_;
};

std::string_view without_blanks(std::string_view cell, int& column) {
  while (!cell.empty() && cell.front() == ' ') {
    cell.remove_prefix(1);
    ++column;
  }
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\r')) cell.remove_suffix(1);
  return cell;
}

void read_row(Rows& rows, std::string_view line) {
  Action place{.rank = static_cast<int>(rows.ranks.size())};
  auto& actions = rows.ranks.emplace_back();
  for (std::size_t start = 0; start <= line.size(); ++place.cell) {
    const std::size_t end = std::min(line.find(',', start), line.size());
    place.column = static_cast<int>(start) + 1;
    const std::string_view cell = without_blanks(line.substr(start, end - start), place.column);
    if (cell.empty()) {
      rows.idle.push_back(place);
    } else {
      CellReader(rows, place, cell).append_to(actions);
    }
    start = end + 1;
  }
}

}  // namespace

std::string action_text(Kind kind, int stage, int microbatch) {
  const Word& word = word_of(kind);
  std::string text = std::to_string(stage);
  text += word.text;
  if (word.takes_microbatch) text += std::to_string(microbatch);
  return text;
}

void Rows::fail_at(const Action& action, const std::string& message) const {
  throw Error(ErrorKind::input,
              concat("rank ", action.rank, ", cell ", action.cell + 1, ": ", message),
              SourcePlace{file, action.rank + 1, action.column});
}

void Rows::fail_at_row(int rank, const std::string& message) const {
  throw Error(ErrorKind::input, concat("rank ", rank, ": ", message),
              SourcePlace{file, rank + 1, 1});
}

Rows parse_rows(std::string_view text, const std::string& file) {
  Rows rows{.file = file, .ranks = {}, .idle = {}};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    read_row(rows, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  for (std::size_t rank = 0; rank < rows.ranks.size(); ++rank) {
    if (rows.ranks[rank].empty()) {
      rows.fail_at_row(static_cast<int>(rank),
                       "the row lists nothing to do; each rank has a row, and at least one stage");
    }
  }
  return rows;
}

}  // namespace stagecraft::torch
