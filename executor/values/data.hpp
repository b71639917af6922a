// Training data: a stream of tokens, or images with labels, and which of them make up sample n.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "profiles/model.hpp"

namespace stagecraft {

/// Tokens of a text (one per byte), of a .bin file (little-endian uint16 or uint32, told apart by
/// name ".u32.bin"/".bin" or a vocabulary over 65535), or synthetic.
struct Dataset {
  std::string source;
  std::vector<std::int32_t> tokens;  ///< of images: their pixels, image by image
  std::vector<std::int32_t> labels;  ///< of images: one each; empty otherwise
};

/// Throws Error (input) if the file is missing, too short for one sample, or holds a token outside
/// of the vocabulary.
Dataset load_dataset(const std::filesystem::path& path, std::int64_t vocabulary,
                     std::int64_t sequence);
/// A learnable synthetic text: a fixed random Markov chain over the vocabulary.
Dataset synthetic_dataset(std::int64_t vocabulary, std::int64_t tokens, std::uint64_t seed);

/// Images in the binary form of CIFAR-10 (Krizhevsky 2009): for each a byte with its label, then
/// its pixels, a byte each, channel by channel. Throws Error (input) if the file is missing, ends
/// within an image, or has a label that is not below `classes`.
Dataset load_images(const std::filesystem::path& path, const Image& image, std::int64_t classes);
/// Learnable synthetic images: each class has a picture of random squares, each image is a noisy
/// copy of that of its label.
Dataset synthetic_images(const Image& image, std::int64_t classes, std::int64_t count,
                         std::uint64_t seed);

/// Throws Error (input) unless the model can be trained on the data: text for a transformer, long
/// enough for a sample; images of its size for a network of images.
void require_samples(const Dataset& dataset, const Model& model);

/// Where sample `index` starts: the same for every plan, a function of (seed, index) only (Philox).
/// Of images: which one it is.
std::int64_t sample_start(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                          std::int64_t index);

/// Tokens and targets (shifted by one) of samples [first, first + count), sequence by sequence; or
/// their images' pixels and labels.
struct TokenBlock {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::int64_t past = 0;  ///< of a piece: the tokens of each sequence before it
};
TokenBlock token_block(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                       std::int64_t first, std::int64_t count);

/// One of several equal pieces of all the block's sequences.
TokenBlock piece_of(const TokenBlock& block, std::int64_t sequence, int piece, int pieces);

}  // namespace stagecraft
