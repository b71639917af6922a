#include "executor/values/data.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <span>

#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"
#include "profiles/raw_file.hpp"

namespace stagecraft {

namespace {

/// What a random number is for: numbers of different use never share a counter.
enum class Use : std::uint32_t { sample, successor, walk, picture, noise };

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
  if (std::filesystem::is_character_file(path)) {
    fail(name,
         ": is a device, whose bytes may never end; name a file with as many as are wanted: "
         "head -c 100M ",
         name, " > data.bin");
  }
  const auto started = launch();
  if (std::filesystem::is_fifo(path) && started && started->processes > 1) {
    fail(name, ": is a pipe, which can be read once, and each of the ", started->processes,
         " processes reads the data; name a file, or use --transport threads");
  }
  std::string bytes = read_raw_file(path);
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

/// The pixels of a class's picture: 4 x 4 squares of one colour each, in every channel.
std::vector<std::int64_t> picture(const Image& image, std::int64_t label, std::uint64_t seed) {
  constexpr std::int64_t squares = 4;
  std::vector<std::int64_t> pixels;
  for (std::int64_t i = 0; i < image.elements(); ++i) {
    const std::int64_t channel = i / (image.size * image.size);
    const std::int64_t row = i / image.size % image.size * squares / image.size;
    const std::int64_t column = i % image.size * squares / image.size;
    const std::int64_t square = (channel * squares + row) * squares + column;
    pixels.push_back(below(256, seed, Use::picture, static_cast<std::uint64_t>(label),
                           static_cast<std::uint32_t>(square)));
  }
  return pixels;
}

/// Zero where there are no images.
std::int64_t pixels_per_image(const Dataset& dataset) {
  if (dataset.labels.empty()) return 0;
  return static_cast<std::int64_t>(dataset.tokens.size() / dataset.labels.size());
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

Dataset load_images(const std::filesystem::path& path, const Image& image, std::int64_t classes) {
  const std::string bytes = read_bytes(path);
  const auto record = static_cast<std::size_t>(image.elements()) + 1;
  if (bytes.size() % record != 0) {
    fail(path.string(), ": its ", bytes.size(), " bytes are no whole number of images of ", record,
         " bytes (a label, and ", image.channels, " x ", image.size, " x ", image.size,
         " pixels); the last one, at offset ", bytes.size() / record * record, ", is cut off");
  }
  Dataset dataset{.source = path.string()};
  for (std::size_t offset = 0; offset < bytes.size(); offset += record) {
    const auto label = static_cast<unsigned char>(bytes[offset]);
    if (label >= classes) {
      fail(path.string(), ": label ", int{label}, " at offset ", offset, " is none of the model's ",
           classes, " classes");
    }
    dataset.labels.push_back(label);
    for (std::size_t i = offset + 1; i < offset + record; ++i) {
      dataset.tokens.push_back(static_cast<unsigned char>(bytes[i]));
    }
  }
  return dataset;
}

Dataset synthetic_images(const Image& image, std::int64_t classes, std::int64_t count,
                         std::uint64_t seed) {
  Dataset dataset{
      .source = concat("synthetic images, ", count, " of ", classes, " classes, seed ", seed)};
  std::vector<std::vector<std::int64_t>> pictures;
  for (std::int64_t label = 0; label < classes; ++label) {
    pictures.push_back(picture(image, label, seed));
  }
  std::uint64_t words = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    dataset.labels.push_back(static_cast<std::int32_t>(i % classes));
    std::array<std::uint32_t, 4> noise{};
    std::size_t byte = 16;
    for (const std::int64_t colour : pictures[static_cast<std::size_t>(i % classes)]) {
      if (byte == 16) {
        noise = philox(seed, Use::noise, words++);
        byte = 0;
      }
      const std::int64_t shade = noise[byte / 4] >> (8 * (byte % 4)) & 255U;
      dataset.tokens.push_back(static_cast<std::int32_t>((colour + shade) / 2));
      ++byte;
    }
  }
  return dataset;
}

void require_samples(const Dataset& dataset, const Model& model) {
  const auto& image = model.layers.front().image;
  if (!image) {
    if (!dataset.labels.empty()) {
      fail(dataset.source, ": holds images, but ", model.name, " is trained on text");
    }
    return require_sample(dataset, model.sequence);
  }
  if (dataset.labels.empty()) {
    fail(dataset.source, ": holds text, but ", model.name, " is trained on images");
  }
  if (pixels_per_image(dataset) == image->input.elements()) return;
  fail(dataset.source, ": its images have ", pixels_per_image(dataset), " pixels, those of ",
       model.name, " have ", image->input.elements());
}

std::int64_t sample_start(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                          std::int64_t index) {
  if (!dataset.labels.empty()) {
    const auto images = static_cast<std::int64_t>(dataset.labels.size());
    return below(images, seed, Use::sample, static_cast<std::uint64_t>(index));
  }
  require_sample(dataset, sequence);
  const std::int64_t starts = static_cast<std::int64_t>(dataset.tokens.size()) - sequence;
  return below(starts, seed, Use::sample, static_cast<std::uint64_t>(index));
}

TokenBlock token_block(const Dataset& dataset, std::int64_t sequence, std::uint64_t seed,
                       std::int64_t first, std::int64_t count) {
  TokenBlock block;
  const auto append = [](std::vector<std::int32_t>& to, const std::vector<std::int32_t>& all,
                         std::int64_t start, std::int64_t length) {
    to.insert(to.end(), all.begin() + start, all.begin() + start + length);
  };
  const std::int64_t pixels = pixels_per_image(dataset);
  for (std::int64_t index = first; index < first + count; ++index) {
    const std::int64_t start = sample_start(dataset, sequence, seed, index);
    if (pixels > 0) {
      append(block.tokens, dataset.tokens, start * pixels, pixels);
      append(block.targets, dataset.labels, start, 1);
    } else {
      append(block.tokens, dataset.tokens, start, sequence);
      append(block.targets, dataset.tokens, start + 1, sequence);
    }
  }
  return block;
}

TokenBlock piece_of(const TokenBlock& block, std::int64_t sequence, int piece, int pieces) {
  if (pieces == 1) return block;
  const std::int64_t length = sequence / pieces;
  TokenBlock part{.tokens = {}, .targets = {}, .past = piece * length};
  const auto samples = static_cast<std::int64_t>(block.targets.size()) / sequence;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    const std::int64_t first = sample * sequence + part.past;
    part.tokens.insert(part.tokens.end(), block.tokens.begin() + first,
                       block.tokens.begin() + first + length);
    part.targets.insert(part.targets.end(), block.targets.begin() + first,
                        block.targets.begin() + first + length);
  }
  return part;
}

}  // namespace stagecraft
