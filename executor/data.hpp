// Training data: a stream of tokens, and which of them make up sample n.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace stagecraft {

/// Tokens of a text (one per byte), of a .bin file (little-endian uint16 or uint32, told apart by
/// name ".u32.bin"/".bin" or a vocabulary over 65535), or synthetic.
struct Dataset {
  std::string source;
  std::vector<std::int32_t> tokens;
};

/// Throws Error (input) if the file is missing, too short for one sample, or holds a token outside
/// of the vocabulary.
Dataset load_dataset(const std::filesystem::path& path, std::int64_t vocabulary,
                     std::int64_t sequence);
/// A learnable synthetic text: a fixed random Markov chain over the vocabulary.
Dataset synthetic_dataset(std::int64_t vocabulary, std::int64_t tokens, std::uint64_t seed);

/// Where sample `index` starts: the same for every plan, a function of (seed, index) only (Philox).
std::int64_t sample_start(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                          std::int64_t index);

/// Tokens and targets (shifted by one) of samples [first, first + count), sequence by sequence.
struct TokenBlock {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};
TokenBlock token_block(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                       std::int64_t first, std::int64_t count);

}  // namespace stagecraft
