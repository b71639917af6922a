// Every reader, given what is a little wrong: it ends in a result or in one sentence.
//
//   tests_fuzz                                     a few hundred inputs for each reader
//   STAGECRAFT_FUZZ=1000000 tests_fuzz '[many]'    as many for each; STAGECRAFT_FUZZ_SEED=2 draws
//                                                  others, STAGECRAFT_FUZZ_READER=plan takes one
//   STAGECRAFT_FUZZ=100000 tests_fuzz '[guided]'   as many for each, led by what they reach; with
//                                                  the same variables, of the preset dev alone

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/fuzz/guidance.hpp"
#include "tests/fuzz/hidden_word.hpp"
#include "tests/fuzz/mutations.hpp"
#include "tests/fuzz/readers.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

/// What a signal handler removes: the names that files in it may have, and the folder itself.
constexpr std::array names{"input", "input.safetensors", ""};
std::array<std::string, names.size()> of_scratch;

/// A folder for the files that readers open, gone with the process.
class Scratch {
 public:
  Scratch() {
    std::string name = (folder_for_scratch() / "stagecraft-fuzz-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    for (std::size_t i = 0; i < of_scratch.size(); ++i)
      of_scratch[i] = (folder_ / names[i]).string();
  }
  ~Scratch() {
    std::error_code none;
    fs::remove_all(folder_, none);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  fs::path file(const Reader& reader) const {
    return folder_ / (reader.name == "safetensors" ? "input.safetensors" : "input");
  }

 private:
  fs::path folder_;
};

std::vector<std::string> inputs_of(const Reader& reader) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(inputs_folder() / reader.name)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<std::string> inputs;
  for (const fs::path& file : files) inputs.push_back(read_file(file));
  return inputs;
}

/// What is being read, for whoever hears that it ended the process.
struct Current {
  const Reader* reader = nullptr;
  std::string bytes;
} current;

/// The input goes to a file, to be read again.
extern "C" void tell_and_end(int signal) {
  const std::string name = current.reader == nullptr ? "none" : current.reader->name;
  const std::string file = "fuzz-failure-" + name;
  std::ofstream(file, std::ios::binary) << current.bytes;
  for (const std::string& entry : of_scratch) std::remove(entry.c_str());
  std::fprintf(stderr, "%s: signal %d while reading what is now in %s\n", name.c_str(), signal,
               file.c_str());
  _exit(1);
}

void watch_for_crashes() {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGPROF}) {
    std::signal(signal, tell_and_end);
  }
}

long largest_memory_in_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// Of this process's own time: on a busy machine others have some, too. More than the first is a
/// fault, and the process ends after the second.
#ifndef STAGECRAFT_WATCHED
constexpr double longest_seconds = 1;
#else
constexpr double longest_seconds = 20;
#endif
constexpr int seconds_until_end = 30;

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void limit_time(int seconds) {
  itimerval limit{};
  limit.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

constexpr long most_memory_in_kib = 1L << 20;

void write_bytes(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

/// What came of one input.
struct Attempt {
  bool accepted = false;
  double seconds = 0;
};

/// A fault fails the test, with the input in a file.
Attempt attempt(const Reader& reader, const std::string& bytes, const fs::path& scratch) {
  current.reader = &reader;
  current.bytes = bytes;
  if (reader.reads_file) write_bytes(scratch, bytes);
  const long before = largest_memory_in_kib();
  limit_time(seconds_until_end);
  Attempt attempt;
  const double start = processor_seconds();
  std::string fault;
  try {
    attempt.accepted = read_by(reader, bytes, scratch);
  } catch (const std::exception& error) {
    fault = error.what();
  }
  limit_time(0);
  attempt.seconds = processor_seconds() - start;
  if (attempt.seconds > longest_seconds) fault += concat(" (it takes ", attempt.seconds, " s)");
  if (largest_memory_in_kib() - before > most_memory_in_kib) fault += " (it takes over 1 GiB)";
  if (!fault.empty()) {
    write_bytes("fuzz-failure-" + reader.name, bytes);
    FAIL_CHECK(reader.name << ": " << fault << "; the input is now in fuzz-failure-"
                           << reader.name);
  }
  return attempt;
}

long from_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtol(text, nullptr, 10);
}

std::mt19937_64 chosen_random() {
  return std::mt19937_64(static_cast<std::uint64_t>(from_environment("STAGECRAFT_FUZZ_SEED", 1)));
}

/// All, or the one that STAGECRAFT_FUZZ_READER names.
std::vector<Reader> chosen_readers() {
  const char* only = std::getenv("STAGECRAFT_FUZZ_READER");
  return only == nullptr ? readers() : std::vector{reader_named(only)};
}

void read_mutations(long runs) {
  watch_for_crashes();
  const Scratch scratch;
  for (const Reader& reader : chosen_readers()) {
    const std::vector<std::string> inputs = inputs_of(reader);
    REQUIRE_FALSE(inputs.empty());
    std::mt19937_64 random = chosen_random();
    long accepted = 0;
    double longest = 0;
    const double start = processor_seconds();
    for (long i = 0; i < runs; ++i) {
      const Attempt one = attempt(reader, mutated(inputs, random), scratch.file(reader));
      accepted += one.accepted;
      longest = std::max(longest, one.seconds);
    }
    if (runs > 1000) {
      std::cout
          << fmt::format(
                 "{}: {} inputs, {} accepted, {:.1f} s of processor, {:.0f} ms at most for one",
                 reader.name, runs, accepted, processor_seconds() - start, 1000 * longest)
          << std::endl;
    }
  }
}

/// Readers whose names start with one of the beginnings, or with none of them.
enum class Whose : std::uint8_t { with, without };
void read_guided(Whose whose, const std::vector<std::string>& beginnings) {
  if (!is_guided()) SKIP("this build does not say what inputs reach; the preset dev does");
  watch_for_crashes();
  const Scratch scratch;
  for (const Reader& reader : chosen_readers()) {
    const bool starts_so = std::ranges::any_of(
        beginnings, [&](const std::string& each) { return reader.name.starts_with(each); });
    if (starts_so != (whose == Whose::with)) continue;
    std::mt19937_64 random = chosen_random();
    const long runs = from_environment("STAGECRAFT_FUZZ", 500);
    const double start = processor_seconds();
    const std::size_t steps = search_guided(
        inputs_of(reader), runs, random,
        [&](const std::string& bytes) { attempt(reader, bytes, scratch.file(reader)); });
    std::cout << fmt::format("{}: {} steps, {:.1f} s of processor\n", reader.name, steps,
                             processor_seconds() - start);
    INFO(reader.name);
    CHECK(steps > 5);
  }
}

}  // namespace

TEST_CASE("every reader has inputs that it accepts") {
  const Scratch scratch;
  for (const Reader& reader : readers()) {
    INFO(reader.name);
    for (const std::string& bytes : inputs_of(reader)) {
      const fs::path file = scratch.file(reader);
      if (reader.reads_file) write_bytes(file, bytes);
      CHECK(read_by(reader, bytes, file));
    }
  }
}

TEST_CASE("inputs that are a little wrong end in a result or in one sentence", "[seconds]") {
  read_mutations(200);
}

TEST_CASE("many inputs that are a little wrong", "[.many]") {
  read_mutations(from_environment("STAGECRAFT_FUZZ", 1'000'000));
}

TEST_CASE("a search that is told what it reaches finds a word, and one that is not does not",
          "[seconds]") {
  if (!is_guided()) SKIP("this build does not say what inputs reach; the preset dev does");
  constexpr long runs = 100'000;
  const std::vector<std::string> inputs{"........"};
  bool is_found = false;
  std::mt19937_64 random(1);
  search_guided(inputs, runs, random, [&](const std::string& text) {
    is_found = is_found || starts_with_hidden_word(text);
  });
  CHECK(is_found);
  bool is_found_blindly = false;
  for (long i = 0; i < runs; ++i)
    is_found_blindly = is_found_blindly || starts_with_hidden_word(mutated(inputs, random));
  CHECK_FALSE(is_found_blindly);
}

TEST_CASE("inputs that reach new code end in a result or in one sentence: models",
          "[seconds][guided]") {
  read_guided(Whose::with, {"model", "machine", "profile", "cluster"});
}

TEST_CASE("inputs that reach new code end in a result or in one sentence: plans",
          "[seconds][guided]") {
  read_guided(Whose::with, {"plan", "stages"});
}

TEST_CASE("inputs that reach new code end in a result or in one sentence: runs",
          "[seconds][guided]") {
  read_guided(Whose::with, {"runs", "measured", "constants", "nccl", "t"});
}

TEST_CASE("inputs that reach new code end in a result or in one sentence: others",
          "[seconds][guided]") {
  read_guided(Whose::without, {"model", "machine", "profile", "cluster", "plan", "stages", "runs",
                               "measured", "constants", "nccl", "t"});
}
