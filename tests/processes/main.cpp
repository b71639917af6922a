// The main function of tests that several processes run together, each with the ranks it has:
//
//   mpirun -n 8 tests_processes
//
// Rank 0 prints; another one only if something failed there that rank 0 cannot know of.

#define CATCH_CONFIG_RUNNER
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"

namespace {

/// A file for what a process prints.
std::filesystem::path page_of(int rank) {
  return std::filesystem::temp_directory_path() /
         ("stagecraft-rank-" + std::to_string(rank) + "-" + std::to_string(getpid()));
}

int run_alone(int argc, char** argv) {
  return Catch::Session().run(argc, argv) == 0 ? 0 : 1;
}

int run_together(int argc, char** argv) {
  stagecraft::Processes& processes = stagecraft::launched_processes();
  std::vector<char*> arguments(argv, argv + argc);
  std::string option = "--out", page = page_of(processes.rank()).string();
  if (processes.rank() != 0) arguments.insert(arguments.end(), {option.data(), page.data()});
  const bool failed =
      Catch::Session().run(static_cast<int>(arguments.size()), arguments.data()) != 0;
  if (processes.rank() != 0 && failed) {
    std::cout << "rank " << processes.rank() << ":\n" << std::ifstream(page).rdbuf();
  }
  std::filesystem::remove(page);
  // One that failed says so first: the last call returns what rank 0 has to say.
  const auto heard = processes.gather(failed ? "failed" : "");
  const bool any = std::ranges::count(heard, "failed") > 0;
  return processes.part(any ? 1 : 0);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return stagecraft::launch() ? run_together(argc, argv) : run_alone(argc, argv);
  } catch (const stagecraft::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
