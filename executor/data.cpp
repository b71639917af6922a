#include "executor/data.hpp"

#include <Random123/philox.h>

#include <array>
#include <cassert>
#include <fstream>
#include <iterator>
#include <span>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// What a random number is for: numbers of different use never share a counter.
enum class Use : std::uint32_t { sample, successor, walk };

/// Four random words as a function of their arguments only.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, Use use, std::uint64_t index,
                                    std::uint32_t part = 0) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word); };
  const r123::Philox4x32::ctr_type counter{
      {low(index), low(index >> 32), static_cast<std::uint32_t>(use), part}};
  const r123::Philox4x32::key_type key{{low(seed), low(seed >> 32)}};
  const auto words = r123::Philox4x32{}(counter, key);
  return {words[0], words[1], words[2], words[3]};
}

/// A number in [0, bound).
std::int64_t below(std::int64_t bound, std::uint64_t seed, Use use, std::uint64_t index,
                   std::uint32_t part = 0) {
  const auto words = philox(seed, use, index, part);
  const std::uint64_t word = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<std::int64_t>(word % static_cast<std::uint64_t>(bound));
}

std::string read_bytes(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (!std::filesystem::exists(path)) fail(name, ": no such file");
  if (std::filesystem::is_directory(path)) fail(name, ": is a folder, not a file of tokens");
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(name, ": cannot be opened");
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) fail(name, ": cannot be read");
  if (bytes.empty()) fail(name, ": is empty");
  return bytes;
}

/// Bytes of one token: texts have one, binary files two or four.
std::size_t token_bytes(const std::filesystem::path& path, std::int64_t vocabulary) {
  const std::string name = path.filename().string();
  if (!name.ends_with(".bin")) return 1;
  return name.ends_with(".u32.bin") || vocabulary > 65535 ? 4 : 2;
}

/// The unsigned number in these bytes, the lowest first.
std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

void require_sample(const Dataset& dataset, std::int64_t sequence) {
  const auto tokens = static_cast<std::int64_t>(dataset.tokens.size());
  if (tokens > sequence) return;
  fail(dataset.source, ": holds ", tokens, " tokens, but one sample of ", sequence, " needs ",
       sequence + 1, " (its targets are shifted by one)");
}

/// Each token's possible successors; the earlier ones are likelier.
constexpr std::uint32_t successors = 4;

std::int32_t successor(std::int32_t token, std::int64_t vocabulary, std::uint64_t seed,
                       std::uint32_t choice) {
  return static_cast<std::int32_t>(
      below(vocabulary, seed, Use::successor, static_cast<std::uint64_t>(token), choice));
}

/// 0, 1, 2, 3 with probabilities 1/2, 1/4, 1/8, 1/8.
std::uint32_t choose_successor(std::uint32_t word) {
  std::uint32_t choice = 0;
  while (choice + 1 < successors && (word >> choice & 1U) != 0) ++choice;
  return choice;
}

}  // namespace

Dataset load_dataset(const std::filesystem::path& path, std::int64_t vocabulary,
                     std::int64_t sequence) {
  const std::string bytes = read_bytes(path);
  const std::size_t width = token_bytes(path, vocabulary);
  if (bytes.size() % width != 0) {
    fail(path.string(), ": its ", bytes.size(), " bytes are no whole number of ", width,
         "-byte tokens; the last one, at offset ", bytes.size() / width * width, ", is cut off");
  }
  Dataset dataset{.source = path.string()};
  dataset.tokens.reserve(bytes.size() / width);
  for (std::size_t offset = 0; offset < bytes.size(); offset += width) {
    const std::uint32_t token = little_endian(std::string_view(bytes).substr(offset, width));
    if (token >= static_cast<std::uint64_t>(vocabulary)) {
      fail(path.string(), ": token ", token, " at offset ", offset,
           " is outside of the model's vocabulary of ", vocabulary);
    }
    dataset.tokens.push_back(static_cast<std::int32_t>(token));
  }
  require_sample(dataset, sequence);
  return dataset;
}

Dataset synthetic_dataset(std::int64_t vocabulary, std::int64_t tokens, std::uint64_t seed) {
  Dataset dataset{.source = concat("synthetic text of ", tokens, " tokens, seed ", seed)};
  dataset.tokens.reserve(static_cast<std::size_t>(tokens));
  std::int32_t token = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const auto words = philox(seed, Use::walk, static_cast<std::uint64_t>(i));
    token = successor(token, vocabulary, seed, choose_successor(words[0]));
    dataset.tokens.push_back(token);
  }
  return dataset;
}

std::int64_t sample_start(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                          std::int64_t index) {
  require_sample(dataset, sequence);
  const std::int64_t starts = static_cast<std::int64_t>(dataset.tokens.size()) - sequence;
  return below(starts, seed, Use::sample, static_cast<std::uint64_t>(index));
}

TokenBlock token_block(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                       std::int64_t first, std::int64_t count) {
  TokenBlock block;
  const auto append = [&](std::vector<std::int32_t>& to, std::int64_t start) {
    const auto from = dataset.tokens.begin() + start;
    to.insert(to.end(), from, from + sequence);
  };
  for (std::int64_t index = first; index < first + count; ++index) {
    const std::int64_t start = sample_start(dataset, sequence, seed, index);
    append(block.tokens, start);
    append(block.targets, start + 1);
  }
  return block;
}

}  // namespace stagecraft
