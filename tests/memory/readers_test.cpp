// Every reader, given too little memory at every place where it asks for some: it ends in a result
// or in one sentence, keeps nothing, and reads the next input as if nothing had been.
//
//   tests_memory              allocations of small inputs, in growing steps
//   tests_memory '[every]'    every single one; STAGECRAFT_MEMORY_READER=plan takes one reader

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/fuzz/readers.hpp"
#include "tests/memory/failing_news.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

/// The shortest of a reader's inputs.
std::string input_of(const Reader& reader) {
  std::string shortest;
  for (const auto& entry : fs::directory_iterator(inputs_folder() / reader.name)) {
    const std::string bytes = read_file(entry.path());
    if (shortest.empty() || bytes.size() < shortest.size()) shortest = bytes;
  }
  return shortest;
}

/// A number that a process and its child both see.
class Shared {
 public:
  Shared()
      : place_(static_cast<long*>(mmap(nullptr, sizeof(long), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Shared() { munmap(place_, sizeof(long)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  long& operator*() const { return *place_; }

 private:
  long* place_;
};

/// How a child ends.
enum Ending { all_done = 0, at_fault = 1, ended_by_destructor = 3 };

[[noreturn]] void report(const Reader& reader, long allocation, const std::string& fault) {
  std::fprintf(stderr, "%s, allocation %ld: %s\n", reader.name.c_str(), allocation, fault.c_str());
  _exit(at_fault);
}

/// Where nothing may be thrown memory is asked for as well (nlohmann/json's destructor), or what is
/// half made breaks that library's assertions, and the program ends with its sentence
/// (tools/main.cpp).
[[noreturn]] void end_as_program() {
  _exit(has_failed() ? ended_by_destructor : at_fault);
}
extern "C" void end_aborted_as_program(int) {
  end_as_program();
}

struct Subject {
  const Reader& reader;
  std::string bytes;
  fs::path file;
  bool accepted = false;

  bool read() const { return read_by(reader, bytes, file); }
};

/// Whether this allocation was made, and failed, and what was kept of it.
struct Failure {
  bool failed = false;
  long kept = 0;
};

Failure fail_at(const Subject& subject, long allocation) {
  const long before = live_allocations();
  std::string fault;
  fail_allocation(allocation);
  try {
    static_cast<void>(subject.read());
  } catch (const std::exception& error) {
    end_failing();
    fault = concat("something else than bad_alloc or one sentence: ", error.what());
  } catch (...) {
    end_failing();
    fault = "something that is no exception of the standard library";
  }
  const bool failed = end_failing();
  if (!fault.empty()) report(subject.reader, allocation, fault);
  return {failed, live_allocations() - before};
}

/// nlohmann/json's constructor from a list keeps what it has made of an object when the next member
/// cannot be made: a few pieces of what a reader writes down, once, as the command ends.
constexpr long most_of_one_list = 16;

bool fails_at(const Subject& subject, long allocation) {
  Failure failure = fail_at(subject, allocation);
  // What is made for the first error of its kind is kept for the next; what is lost is lost again.
  if (failure.kept > 0) failure = fail_at(subject, allocation);
  if (failure.kept > most_of_one_list)
    report(subject.reader, allocation, concat(failure.kept, " allocations are lost"));
  return failure.failed;
}

/// In a process of its own, from this allocation on, until there are no more.
[[noreturn]] void try_allocations(const Subject& subject, long& allocation, double growth) {
  std::set_terminate(end_as_program);
  std::signal(SIGABRT, end_aborted_as_program);
  subject.read();  // what is made once is made
  for (; fails_at(subject, allocation);
       allocation += 1 + static_cast<long>(growth * static_cast<double>(allocation))) {
    if (subject.read() != subject.accepted)
      report(subject.reader, allocation, "the next input is read in another way");
  }
  _exit(all_done);
}

/// Allocations that failed, each for itself: all if `growth` is 0, else that much of their number
/// apart.
long try_reader(const Reader& reader, const fs::path& folder, double growth) {
  Subject subject{.reader = reader,
                  .bytes = input_of(reader),
                  .file = folder / (reader.name == "safetensors" ? "input.safetensors" : "input")};
  if (reader.reads_file) std::ofstream(subject.file, std::ios::binary) << subject.bytes;
  subject.accepted = subject.read();
  const Shared allocation;
  *allocation = 0;
  while (true) {
    std::fflush(nullptr);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) try_allocations(subject, *allocation, growth);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    INFO(reader.name << ": allocation " << *allocation << " ends with status " << status);
    const bool goes_on = WIFEXITED(status) && WEXITSTATUS(status) == ended_by_destructor;
    if (!goes_on) {
      CHECK(status == 0);
      return *allocation;
    }
    *allocation += 1 + static_cast<long>(growth * static_cast<double>(*allocation));
  }
}

void try_readers(double growth) {
  std::string name = (folder_for_scratch() / "stagecraft-memory-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  const char* only = std::getenv("STAGECRAFT_MEMORY_READER");
  for (const Reader& reader : readers()) {
    if (only != nullptr && reader.name != only) continue;
    INFO(reader.name);
    const long count = try_reader(reader, folder, growth);
    if (growth == 0) std::printf("%s: %ld allocations\n", reader.name.c_str(), count);
  }
  fs::remove_all(folder);
}

}  // namespace

TEST_CASE("a reader whose memory runs out, wherever it asks for some, says so and no more",
          "[seconds]") {
  try_readers(0.05);
}

TEST_CASE("a reader says so at every single allocation", "[.every]") {
  try_readers(0);
}
