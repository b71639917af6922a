// Replays what README.md and tests/cli/*.md show, on the program itself.
//
// A transcript is a block between ```console and ```. A line "$ command" is run by bash; the lines
// below it are what it must print, on both streams. "…" stands for any text within a line, or, on a
// line of its own, for any number of lines. "[exit 4]" as the last line is the exit code, 0
// without. The size of a page, "480 kB", may be a twentieth off. The commands of one file run in
// order in one empty folder, with `stagecraft` on the path, and `$examples` for tools/examples. A
// block that begins with ```console mpi is left out where the program was built without MPI or
// there is no mpirun.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace {

namespace fs = std::filesystem;

const fs::path root = stagecraft::tests::source_folder();
const fs::path program = STAGECRAFT_PROGRAM;

struct Transcript {
  int line = 0;
  std::string command;
  std::string expected;
};

bool has_mpi() {
  return fs::exists(program.parent_path() / "libstagecraft_mpi.so") &&
         std::system("command -v mpirun >/dev/null") == 0;
}

// All commands in the ```console blocks of a file that can run here.
std::vector<Transcript> read_transcripts(const fs::path& file) {
  std::vector<Transcript> result;
  std::ifstream in(file);
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = line == "```console" || (line == "```console mpi" && has_mpi());
    } else if (inside && line.starts_with("$ ")) {
      result.push_back({.line = number, .command = line.substr(2) + "\n", .expected = ""});
    } else if (inside && !result.empty()) {
      Transcript& last = result.back();
      const bool continued = last.expected.empty() && last.command.ends_with("\\\n");
      (continued ? last.command : last.expected) += line + "\n";
    }
  }
  return result;
}

fs::path script_of(const fs::path& folder) {
  return folder.string() + ".bash";
}

// What a command prints on both streams, and its exit code if that is not 0.
std::string run(const std::string& command, const fs::path& folder) {
  const fs::path script = script_of(folder);
  std::ofstream(script) << "cd '" << folder.string() << "'\n"
                        << "export PATH='" << program.parent_path().string() << "':\"$PATH\"\n"
                        << "examples='" << (root / "tools/examples").string() << "'\n"
                        << "export STAGECRAFT_PROGRESS=never\n"
                        << "exec 2>&1 </dev/null\n"
                        << command;
  FILE* pipe = popen(("bash '" + script.string() + "'").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  while (const std::size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code != 0) output += "[exit " + std::to_string(code) + "]\n";
  return output;
}

constexpr std::string_view gap = "…";

// Whether both tell of the same page, of about the same size: what it holds is compressed, and by
// some versions of zlib better than by others.
bool sizes_match(const std::string& line, const std::string& shown) {
  static const std::regex page(R"((.+: )(\d+)( kB, opens in any browser.*))");
  std::smatch printed, expected;
  if (!std::regex_match(line, printed, page) || !std::regex_match(shown, expected, page))
    return false;
  const double ratio = std::stod(printed[2]) / std::stod(expected[2]);
  return printed[1] == expected[1] && printed[3] == expected[3] && ratio > 0.95 && ratio < 1.05;
}

// Whether a line is as shown, where each gap may be any text.
bool line_matches(std::string_view line, std::string_view shown) {
  const std::size_t start = shown.find(gap);
  if (start == std::string_view::npos) return line == shown;
  if (!line.starts_with(shown.substr(0, start))) return false;
  const std::string_view rest = shown.substr(start + gap.size());
  for (std::size_t end = start; end <= line.size(); ++end) {
    if (line_matches(line.substr(end), rest)) return true;
  }
  return false;
}

// Whether lines are as shown, where each line that is only a gap may be any lines.
bool lines_match(std::span<const std::string> lines, std::span<const std::string> shown) {
  if (shown.empty()) return lines.empty();
  if (shown[0] == gap) {
    return lines_match(lines, shown.subspan(1)) ||
           (!lines.empty() && lines_match(lines.subspan(1), shown));
  }
  return !lines.empty() && (line_matches(lines[0], shown[0]) || sizes_match(lines[0], shown[0])) &&
         lines_match(lines.subspan(1), shown.subspan(1));
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

// Runs all commands of a file, and fails at each that prints something else than shown.
void replay(const fs::path& file) {
  const fs::path folder = fs::temp_directory_path() /
                          ("stagecraft-" + file.stem().string() + "-" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::vector<Transcript> transcripts = read_transcripts(file);
  REQUIRE_FALSE(transcripts.empty());
  for (const Transcript& transcript : transcripts) {
    const std::string printed = run(transcript.command, folder);
    INFO(file.string() << ':' << transcript.line << ": $ " << transcript.command);
    INFO("shown:\n" << transcript.expected << "\nprinted:\n" << printed);
    CHECK(lines_match(split_lines(printed), split_lines(transcript.expected)));
  }
  fs::remove_all(folder);
  fs::remove(script_of(folder));
}

std::vector<fs::path> transcript_files() {
  std::vector<fs::path> result;
  for (const auto& entry : fs::directory_iterator(root / "tests" / "cli")) {
    if (entry.path().extension() == ".md") result.push_back(entry.path());
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace

TEST_CASE("README.md shows what its commands print") {
  replay(root / "README.md");
}

// CMakeLists.txt names each file, so that they run side by side: --section FILE runs one.
TEST_CASE("each transcript in tests/cli shows what its commands print", "[.transcripts]") {
  for (const fs::path& file : transcript_files()) {
    DYNAMIC_SECTION(file.filename().string()) {
      replay(file);
    }
  }
}

TEST_CASE("a gap in a transcript stands for any text or any lines") {
  const auto match = [](const std::string& printed, const std::string& shown) {
    return lines_match(split_lines(printed), split_lines(shown));
  };
  CHECK(match("step 12 ms\n", "step … ms\n"));
  CHECK(match("a\nb\nc\n", "a\n…\nc\n"));
  CHECK(match("a\nc\n", "a\n…\nc\n"));
  CHECK_FALSE(match("a\nb\n", "a\n…\nc\n"));
  CHECK_FALSE(match("a\nb\n", "a\n"));
}
