#include "planner/interop/importers/arguments_dump.hpp"

#include <algorithm>
#include <optional>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view dump_begins = "- arguments -", dump_ends = "- end of arguments -";

/// "[default0]:  num_layers ............ 32"; nothing for other lines.
std::optional<FlagWord> read_argument(std::string_view line) {
  const std::size_t dots = line.find(" .");
  const std::size_t ends =
      dots == std::string_view::npos ? dots : line.find_first_not_of('.', dots + 1);
  if (ends == std::string_view::npos || line[ends] != ' ') return {};
  const std::string before = trim(line.substr(0, dots));
  FlagWord word{.name = plain_flag_name(before.substr(before.find_last_of(" \t:]") + 1)),
                .value = trim(line.substr(ends))};
  word.place.column = static_cast<int>(ends) + 2;
  if (word.name.empty()) return {};
  return word;
}

}  // namespace

bool has_arguments_dump(std::string_view content) {
  return content.find(dump_begins) != std::string_view::npos;
}

std::vector<FlagWord> read_arguments_dump(std::string_view content, const std::string& file) {
  std::vector<FlagWord> words;
  bool inside = false;
  for (int number = 1; !content.empty(); ++number) {
    const std::size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    if (line.find(dump_ends) != std::string_view::npos) break;
    if (line.find(dump_begins) != std::string_view::npos) inside = true;
    if (std::optional<FlagWord> word = read_argument(line); word && inside) {
      word->place.file = file;
      word->place.line = number;
      words.push_back(*std::move(word));
    }
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return words;
}

}  // namespace stagecraft
