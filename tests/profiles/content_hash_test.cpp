#include "profiles/content_hash.hpp"

#include <vector>

#include "profiles/json.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

TEST_CASE("the hash of pieces is that of all of them in one place") {
  const std::vector<std::vector<std::string>> texts{
      {},
      {""},
      {"one"},
      {"a", "", std::string("\0", 1), "b"},
      {std::string(1, 'x'), std::string(1000, 'y'), std::string(100'000, 'z'), "end"}};
  for (const std::vector<std::string>& pieces : texts) {
    std::string whole;
    for (const std::string& piece : pieces) whole += piece;
    const std::vector<std::string_view> views(pieces.begin(), pieces.end());
    CHECK(content_hash(std::span(views)) == content_hash(whole));
  }
}
