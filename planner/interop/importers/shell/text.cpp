#include "planner/interop/importers/shell/text.hpp"

#include <algorithm>

#include "profiles/error.hpp"

namespace stagecraft::shell {

namespace {

/// What a script's variables and lines may grow to, in bytes.
constexpr std::size_t longest_text = 1 << 20;

/// Of characters within a line, the last of which may end it.
Place behind(Place place, std::string_view characters) {
  if (characters.empty()) return place;
  const bool ends = characters.back() == '\n';
  place.line += ends ? 1 : 0;
  place.column = ends ? 1 : place.column + static_cast<int>(characters.size());
  return place;
}

}  // namespace

Text Text::hole(int unknown, Place place) {
  std::string mark(1, hole_mark);
  for (int shift = 0; shift < 21; shift += 7)
    mark += static_cast<char>(0x80 | ((unknown >> shift) & 0x7f));
  return {mark, place};
}

int hole_at(std::string_view characters, std::size_t at) {
  int unknown = 0;
  for (std::size_t i = 0; i + 1 < Text::hole_size; ++i) {
    unknown |= (static_cast<unsigned char>(characters[at + 1 + i]) & 0x7f) << (7 * i);
  }
  return unknown;
}

Place Text::place(std::size_t at) const {
  if (origins_.empty()) return {};
  const auto next = std::upper_bound(
      origins_.begin(), origins_.end(), at,
      [](std::size_t place, const Origin& origin) { return place < origin.begin; });
  const Origin& origin = next == origins_.begin() ? *next : *(next - 1);
  const std::size_t from = std::min(origin.begin, characters_.size());
  const std::size_t count = std::min(at, characters_.size()) - std::min(from, at);
  return behind(origin.place, std::string_view(characters_).substr(from, count));
}

void Text::append(std::string_view characters, Place place) {
  if (characters_.size() + characters.size() > longest_text)
    fail("a text of the script grows beyond ", longest_text, " bytes");
  if (!characters.empty() && !origins_.empty() && origins_.back().begin == characters_.size())
    origins_.pop_back();
  // Each line has an origin of its own, so that places are found at once.
  do {
    const std::size_t count = std::min(characters.find('\n'), characters.size() - 1) + 1;
    const std::string_view line = characters.substr(0, count);
    const bool continues =
        !origins_.empty() && !characters_.empty() && end_ == place && characters_.back() != '\n';
    if (!continues) origins_.push_back({characters_.size(), place});
    characters_ += line;
    place = end_ = behind(place, line);
    characters.remove_prefix(line.size());
  } while (!characters.empty());
}

void Text::append(const Text& text) {
  for (std::size_t i = 0; i < text.origins_.size(); ++i) {
    const std::size_t begin = text.origins_[i].begin;
    const std::size_t end =
        i + 1 < text.origins_.size() ? text.origins_[i + 1].begin : text.characters_.size();
    append(std::string_view(text.characters_).substr(begin, end - begin), text.origins_[i].place);
  }
}

Text Text::piece(std::size_t begin, std::size_t count) const {
  begin = std::min(begin, characters_.size());
  const std::size_t end = begin + std::min(count, characters_.size() - begin);
  Text result;
  for (std::size_t at = begin; at < end || at == begin;) {
    const auto next = std::upper_bound(
        origins_.begin(), origins_.end(), at,
        [](std::size_t place, const Origin& origin) { return place < origin.begin; });
    const std::size_t until = next == origins_.end() ? end : std::min(end, next->begin);
    result.append(std::string_view(characters_).substr(at, until - at), place(at));
    if (until <= at) break;
    at = until;
  }
  return result;
}

std::vector<int> Text::unknowns() const {
  std::vector<int> unknowns;
  for (std::size_t at = characters_.find(hole_mark); at != std::string::npos;
       at = characters_.find(hole_mark, at + hole_size)) {
    unknowns.push_back(hole_at(characters_, at));
  }
  return unknowns;
}

int Text::only_unknown() const {
  return characters_.size() == hole_size && characters_.front() == hole_mark
             ? hole_at(characters_, 0)
             : -1;
}

}  // namespace stagecraft::shell
