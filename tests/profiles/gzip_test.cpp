#include "profiles/gzip.hpp"

#include <zlib.h>

#include "profiles/json.hpp"
#include "profiles/raw_file.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// As gzip writes it.
std::string compressed(const std::string& content) {
  z_stream stream{};
  constexpr int gzip = 16;
  REQUIRE(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + gzip, 8,
                       Z_DEFAULT_STRATEGY) == Z_OK);
  std::string source = content, result(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(source.data());
  stream.avail_in = static_cast<uInt>(source.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  result.resize(result.size() - stream.avail_out);
  deflateEnd(&stream);
  return result;
}

constexpr Bytes plenty = Bytes{1} << 30;

/// Does not repeat itself, so that a part of it is a part of what gzip wrote.
std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += concat(i * 2654435761U % 1000003U, " ");
  return text;
}

}  // namespace

TEST_CASE("what gzip compressed is what it holds, and other bytes are themselves") {
  for (const std::string& content : {std::string("{\"a\": 1}"), std::string(), numbers(50'000)}) {
    CHECK(inflated(compressed(content), "f", plenty) == content);
    CHECK(inflated(content, "f", plenty) == content);
  }
  // gzip and cat put one file behind the other.
  CHECK(inflated(compressed("one ") + compressed("two"), "f", plenty) == "one two");
  const TemporaryFolder folder;
  const std::string path = folder.file("k.json.gz", compressed("{\"a\": 1}"));
  CHECK(read_file(path) == "{\"a\": 1}");
  CHECK(Json::read(path)["a"].integer() == 1);
  CHECK(read_raw_file(path) == compressed("{\"a\": 1}"));
  CHECK(stem_of_content("run/k.json.gz") == "k");
  CHECK(stem_of_content("run/k.json") == "k");
}

TEST_CASE("a compressed file that is cut short, damaged or endless is refused") {
  const std::string whole = compressed(numbers(50'000));
  const auto complaint = [](const std::string& bytes, Bytes most = plenty) {
    CHECK(exit_code_of([&] { inflated(bytes, "k.json.gz", most); }) == 3);
    return message_of([&] { inflated(bytes, "k.json.gz", most); });
  };
  for (const std::size_t length :
       {std::size_t{3}, std::size_t{10}, whole.size() / 2, whole.size() - 1}) {
    INFO(length);
    CHECK_THAT(complaint(whole.substr(0, length)),
               ContainsSubstring("k.json.gz: ends before its gzip data do"));
  }
  std::string damaged = whole;
  for (std::size_t i = 0; i < 40; ++i) damaged[damaged.size() / 2 + i] = '\xff';
  CHECK_THAT(complaint(damaged), ContainsSubstring("is damaged"));
  // A thousandth of its size: it must not be inflated to the end.
  const std::string bomb = compressed(std::string(std::size_t{64} << 20, ' '));
  CHECK_THAT(complaint(bomb, 1 << 20), ContainsSubstring("holds more than 1MiB"));
  CHECK_THAT(complaint("\x28\xb5\x2f\xfd and so on"), ContainsSubstring("is compressed by zstd"));
}
