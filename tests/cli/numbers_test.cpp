// Whatever numbers it is given, the program prints numbers, or says which of them it does not take:
// no inf, no nan, nothing that has run out of its type, and no fault of its own.

#include <unistd.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "tests/cli/answers.hpp"

using namespace stagecraft::tests;

namespace {

/// A word by itself, or with a sign or a unit ("-nan", "inf%", "infs"), is none of a sentence's.
std::string word_that_is_no_number(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const auto is_letter = [&](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
                                text[at] == '_' || text[at] == '/' || text[at] == '.');
  };
  for (const std::string_view word : {"inf", "nan", "infinity"}) {
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      const bool begins = at == 0 || !is_letter(at - 1);
      const std::size_t end = at + word.size();
      const bool ends = !is_letter(end) || (text[end] == 's' && !is_letter(end + 1));
      if (begins && ends) return text.substr(at < 60 ? 0 : at - 60, 100);
    }
  }
  // The ends of integers of 64 bits, signed and unsigned, in nanoseconds or bytes, and of doubles.
  for (const std::string_view digits :
       {"9223372036854775", "9223372036.85", "9.22337", "18446744073709551", "1.79769"}) {
    const std::size_t at = text.find(digits);
    if (at != text.npos) return text.substr(at < 60 ? 0 : at - 60, 100);
  }
  return {};
}

void write_to(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

/// A cluster of two devices, of which one number is what it is given as.
std::string cluster_with(const std::string& name, const std::string& value) {
  std::vector<std::pair<std::string, std::string>> numbers{
      {"memory", "\"16GiB\""},     {"fp32", "1e12"},       {"memory_bandwidth", "\"1TB/s\""},
      {"efficiency", "0.5"},       {"latency", "\"5us\""}, {"point_to_point", "\"1GB/s\""},
      {"collective", "\"1GB/s\""}, {"price", "1"}};
  for (auto& [known, number] : numbers) {
    if (known == name) number = value;
  }
  const auto at = [&](std::size_t i) { return numbers[i].second; };
  return R"({"format": "stagecraft-cluster/1", "name": "c", "kinds": [{"name": "d", "memory": )" +
         at(0) + R"(, "flops": {"fp32": )" + at(1) + R"(}, "memory_bandwidth": )" + at(2) +
         R"(, "efficiency": )" + at(3) + R"(, "price_per_hour": )" + at(7) +
         R"(}], "devices": [{"kind": "d", "count": 2}], "levels": [{"count": 2, "link": {"latency": )" +
         at(4) + R"(, "point_to_point": )" + at(5) + R"(, "collective": )" + at(6) + "}}]}";
}

}  // namespace

TEST_CASE("whatever numbers a verb is given, it prints numbers or refuses them", "[seconds]") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("stagecraft-numbers-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const auto check = [&](const std::string& words) {
    for (const std::string& all : {words, words + " --json"}) {
      const Answer told = answer(folder, all);
      INFO(all << "\n" << told.text.substr(0, 2000));
      CHECK((told.code == 0 || (told.code >= 2 && told.code <= 6)));
      CHECK(word_that_is_no_number(told.text) == "");
    }
  };
  const std::string schedule = "simulate --schedule 1f1b --stages 2 --microbatches 2";
  for (const std::string forward : {"0s", "1ns", "1e9s", "1e300s", "290y"}) {
    check(schedule + " --forward " + forward + " --backward 0s");
    check(schedule + " --forward 0s --backward " + forward);
  }
  for (const std::string more :
       {"--transfer 1e18s", "--message 8EiB", "--message 1GB --bandwidth 0B/s",
        "--message 1GB --bandwidth 1e-300GB/s", "--message 1GB --bandwidth 1e308GB/s",
        "--activations 8EiB", "--jitter 1e308% --samples 5", "--jitter 100% --samples 5",
        "--slow 0:1e308%", "--slow-down 1e308%", "--stop 0@1e18s", "--mtbf 1ns --checkpoint 1e15s",
        "--mtbf 1e9s --checkpoint 0s", "--mtbf 1h --checkpoint 1s --checkpoint-every 1ns",
        "--mtbf 1h --checkpoint 1s --restart 1e18s --run-time 1ms --samples 5"}) {
    check(schedule + " --forward 1ms --backward 2ms " + more);
  }
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"memory", "\"0B\""},
                                                        {"memory", "\"8EiB\""},
                                                        {"fp32", "0"},
                                                        {"fp32", "5e-324"},
                                                        {"fp32", "1e24"},
                                                        {"fp32", "1e308"},
                                                        {"memory_bandwidth", "\"1B/s\""},
                                                        {"memory_bandwidth", "\"1e300GB/s\""},
                                                        {"efficiency", "5e-324"},
                                                        {"latency", "\"290y\""},
                                                        {"point_to_point", "\"1e-9B/s\""},
                                                        {"collective", "\"1e300GB/s\""},
                                                        {"price", "1e308"},
                                                        {"price", "5e-324"}}) {
    write_to(folder / "c.json", cluster_with(name, value));
    check("plan tiny-gpt c.json --batch 4 --schedule 1f1b -o p.json");
    check("cluster show c.json");
  }
  std::filesystem::remove_all(folder);
}
