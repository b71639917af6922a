#include "executor/values/data.hpp"

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using tests::TemporaryFolder;

namespace {

std::string complaint(const std::filesystem::path& path, std::int64_t vocabulary,
                      std::int64_t sequence) {
  try {
    load_dataset(path, vocabulary, sequence);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a text has one token per byte") {
  const TemporaryFolder folder;
  const std::string file = folder.file("text.txt", "abc\xff");
  CHECK(load_dataset(file, 256, 3).tokens == std::vector<std::int32_t>{97, 98, 99, 255});
}

TEST_CASE("a .bin file has little-endian tokens of two bytes, or four if two do not suffice") {
  const TemporaryFolder folder;
  const std::string bytes("\x01\x02\x00\x00\x03\x00\x00\x00", 8);
  const std::string two = folder.file("tokens.bin", bytes);
  const std::string four = folder.file("tokens.u32.bin", bytes);
  CHECK(load_dataset(two, 1000, 1).tokens == std::vector<std::int32_t>{0x201, 0, 3, 0});
  CHECK(load_dataset(four, 1000, 1).tokens == std::vector<std::int32_t>{0x201, 3});
  CHECK(load_dataset(two, 70000, 1).tokens == std::vector<std::int32_t>{0x201, 3});
}

TEST_CASE("a file of images has for each its label, then its pixels") {
  const TemporaryFolder folder;
  const std::string file = folder.file("images.bin", std::string("\x01\x02\x03\xff\x00\x07"
                                                                 "\x02\x00\x00\x00\x00\x01",
                                                                 12));
  const Dataset dataset = load_images(file, {5, 1}, 3);
  CHECK(dataset.labels == std::vector<std::int32_t>{1, 2});
  CHECK(dataset.tokens == std::vector<std::int32_t>{2, 3, 255, 0, 7, 0, 0, 0, 0, 1});
  CHECK_THROWS_WITH(load_images(file, {6, 1}, 3),
                    ContainsSubstring("its 12 bytes are no whole number of images of 7 bytes") &&
                        ContainsSubstring("the last one, at offset 7, is cut off"));
  CHECK_THROWS_WITH(load_images(file, {5, 1}, 2),
                    ContainsSubstring("label 2 at offset 6 is none of the model's 2 classes"));
  CHECK_THROWS_WITH(load_images("no/such/file.bin", {5, 1}, 2), ContainsSubstring("no such file"));
}

TEST_CASE("synthetic images look like others of their class, and depend on the seed only") {
  const Image image{3, 8};
  const Dataset dataset = synthetic_images(image, 4, 20, 1);
  CHECK(synthetic_images(image, 4, 20, 1).tokens == dataset.tokens);
  CHECK(synthetic_images(image, 4, 20, 2).tokens != dataset.tokens);
  REQUIRE(dataset.labels.size() == 20);
  REQUIRE(dataset.tokens.size() == 20 * 192);
  const auto distance = [&](std::size_t a, std::size_t b) {
    double sum = 0;
    for (std::size_t i = 0; i < 192; ++i) {
      const double difference = dataset.tokens[192 * a + i] - dataset.tokens[192 * b + i];
      sum += difference * difference;
    }
    return sum;
  };
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(dataset.labels[i] == static_cast<std::int32_t>(i % 4));
    CHECK(distance(i, i + 4) < distance(i, i + 1));
  }
  for (const std::int32_t pixel : dataset.tokens) CHECK((0 <= pixel && pixel < 256));
}

TEST_CASE("samples of images are a function of the seed and their index") {
  const Dataset dataset = synthetic_images({1, 2}, 3, 9, 1);
  const TokenBlock all = token_block(dataset, 1, 5, 0, 6), last = token_block(dataset, 1, 5, 4, 2);
  REQUIRE(all.tokens.size() == 6 * 4);
  REQUIRE(all.targets.size() == 6);
  CHECK(std::equal(last.tokens.begin(), last.tokens.end(), all.tokens.begin() + 16));
  CHECK(std::equal(last.targets.begin(), last.targets.end(), all.targets.begin() + 4));
  for (std::size_t i = 0; i < 6; ++i) {
    const auto image =
        static_cast<std::size_t>(sample_start(dataset, 1, 5, static_cast<std::int64_t>(i)));
    CHECK(all.targets[i] == dataset.labels[image]);
    CHECK(all.tokens[4 * i + 3] == dataset.tokens[4 * image + 3]);
  }
}

TEST_CASE("files that cannot be trained on are refused with a sentence") {
  const TemporaryFolder folder;
  const std::string empty = folder.file("empty.txt", "");
  const std::string odd = folder.file("odd.bin", "abc");
  const std::string large = folder.file("large.bin", std::string("\x05\x00\xe8\x03", 4));
  const std::string brief = folder.file("brief.txt", "abcd");
  CHECK_THAT(complaint("no/such/file.txt", 256, 4), ContainsSubstring("no such file"));
  CHECK_THAT(complaint(folder.path(), 256, 4), ContainsSubstring("is a folder"));
  CHECK_THAT(complaint(empty, 256, 4), ContainsSubstring("is empty"));
  CHECK_THAT(complaint(odd, 256, 1), ContainsSubstring("offset 2, is cut off"));
  CHECK_THAT(
      complaint(large, 1000, 1),
      ContainsSubstring("token 1000 at offset 2 is outside of the model's vocabulary of 1000"));
  CHECK_THAT(complaint(brief, 256, 4),
             ContainsSubstring("holds 4 tokens, but one sample of 4 needs 5"));
  CHECK(complaint(brief, 256, 3) == "none");
}

TEST_CASE("where a sample starts depends on seed and index only, and targets follow tokens") {
  const Dataset dataset = synthetic_dataset(50, 1000, 1);
  std::set<std::int64_t> starts;
  for (std::int64_t i = 0; i < 500; ++i) {
    const std::int64_t start = sample_start(dataset, 16, 3, i);
    CHECK(start == sample_start(dataset, 16, 3, i));
    REQUIRE(start >= 0);
    REQUIRE(start + 16 < 1000);
    starts.insert(start);
  }
  CHECK(starts.size() > 300);
  CHECK(sample_start(dataset, 16, 3, 0) != sample_start(dataset, 16, 4, 0));
  // The only sample of the shortest text starts at its beginning.
  CHECK(sample_start(dataset, 999, 3, 5) == 0);
}

TEST_CASE("a block of samples is its samples one after the other") {
  const Dataset dataset = synthetic_dataset(50, 1000, 1);
  const TokenBlock both = token_block(dataset, 8, 3, 10, 2);
  const TokenBlock second = token_block(dataset, 8, 3, 11, 1);
  REQUIRE(both.tokens.size() == 16);
  CHECK(std::equal(second.tokens.begin(), second.tokens.end(), both.tokens.begin() + 8));
  CHECK(std::equal(second.targets.begin(), second.targets.end(), both.targets.begin() + 8));
  CHECK(std::equal(both.tokens.begin() + 1, both.tokens.begin() + 8, both.targets.begin()));
}

TEST_CASE("synthetic text repeats itself by seed, and each token has few successors") {
  const Dataset dataset = synthetic_dataset(30, 5000, 9);
  CHECK(dataset.tokens == synthetic_dataset(30, 5000, 9).tokens);
  CHECK(dataset.tokens != synthetic_dataset(30, 5000, 10).tokens);
  std::map<std::int32_t, std::set<std::int32_t>> successors;
  for (std::size_t i = 1; i < dataset.tokens.size(); ++i) {
    successors[dataset.tokens[i - 1]].insert(dataset.tokens[i]);
  }
  for (const auto& [token, followers] : successors) CHECK(followers.size() <= 4);
}
