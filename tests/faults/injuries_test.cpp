// Files that are damaged, cut off, gone or another run's, and a disk that is full: each ends the
// run with one sentence and its own exit code.

#include <sys/mount.h>
#include <cstdlib>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "executor/checkpoints/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/faults/small_run.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

void cut_in_half(const fs::path& file) {
  fs::resize_file(file, fs::file_size(file) / 2);
}

void flip_a_bit(const fs::path& file) {
  std::string bytes = text_of(file);
  bytes[bytes.size() / 2] ^= 1;
  write_text(file, bytes);
}

/// The last number of a file becomes NaN.
void spoil_the_last_number(const fs::path& file) {
  const std::string bytes = text_of(file);
  write_text(file, bytes.substr(0, bytes.size() - 4) + std::string("\0\0\xc0\x7f", 4));
}

/// What is done to a file, and what the run that reads it ends with.
struct Injury {
  std::string file;
  std::function<void(const fs::path&)> injure;
  int code = 3;
  std::string sentence;
};

void check_outcome(const Fixture& fixture, const std::vector<std::string>& words, int code,
                   const std::string& sentence) {
  ProgramRun run(fixture.folder.path(), words);
  CHECK(run.wait() == code);
  CHECK(lines_with(run.errors(), "error: ") == 1);
  CHECK_THAT(run.errors(), ContainsSubstring(sentence));
}

/// Two steps, a checkpoint behind each, and the weights.
struct Finished : Fixture {
  explicit Finished(const std::string& name) : Fixture(name) {
    ProgramRun both(folder.path(), run(2, {"--checkpoint", "ck", "--every", "1", "--save-weights",
                                           "weights.safetensors"}));
    REQUIRE(both.wait() == 0);
  }
};

/// A disk of so many bytes, if this process may mount one.
class SmallDisk {
 public:
  SmallDisk(fs::path folder, std::uintmax_t bytes) : folder_(std::move(folder)) {
    fs::create_directory(folder_);
    const std::string size = "size=" + std::to_string(bytes);
    is_there_ = mount("tmpfs", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_there_) umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool is_there() const { return is_there_; }
  bool grow() const {
    return mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT, "size=64m") == 0;
  }

 private:
  fs::path folder_;
  bool is_there_ = false;
};

}  // namespace

TEST_CASE("a checkpoint that is damaged ends the run that would go on from it", "[seconds]") {
  const std::vector<Injury> injuries{
      {"rank-1.bin", cut_in_half, 3, "rank-1.bin: has "},
      {"rank-1.bin", flip_a_bit, 3, "are not those that were written (their hash differs)"},
      {"rank-0.bin", [](const fs::path& file) { fs::remove(file); }, 3,
       "rank-0.bin: cannot be read"},
      {"manifest.json", cut_in_half, 3, "manifest.json:"},
      {"manifest.json", [](const fs::path& file) { fs::remove(file); }, 3, "manifest.json"}};
  const Finished finished("damaged");
  const fs::path second = finished.folder.path() / "ck" / "step-000002";
  for (const Injury& injury : injuries) {
    INFO(injury.sentence);
    const std::string before = text_of(second / injury.file);
    injury.injure(second / injury.file);
    check_outcome(finished, finished.run(3, {"--resume", "ck/step-000002"}), injury.code,
                  injury.sentence);
    write_text(second / injury.file, before);
  }
  // The one before is good whatever becomes of it.
  fs::remove_all(second);
  ProgramRun from_first(finished.folder.path(), finished.run(2, {"--resume", "ck"}));
  CHECK(from_first.wait() == 0);
}

TEST_CASE("a checkpoint of another model is refused by name", "[seconds]") {
  const Finished finished("other-model");
  finished.make_plan("tiny-llama", "llama.json");
  check_outcome(finished, {"run", "llama.json", "--data", "text", "--steps", "3", "--resume", "ck"},
                3, "is a checkpoint of tiny-gpt");
}

TEST_CASE("weights that are cut off, gone or not finite end the run before they are used",
          "[seconds]") {
  const std::vector<Injury> injuries{
      {"weights.safetensors", cut_in_half, 3, "not a whole safetensors file"},
      {"weights.safetensors", [](const fs::path& file) { fs::remove(file); }, 3, "no such file"},
      {"weights.safetensors", spoil_the_last_number, 5, "is not finite, for the weight "}};
  const Finished finished("weights");
  const fs::path file = finished.folder.path() / "weights.safetensors";
  const std::string before = text_of(file);
  for (const Injury& injury : injuries) {
    INFO(injury.sentence);
    injury.injure(file);
    check_outcome(finished, finished.run(1, {"--weights", injury.file}), injury.code,
                  injury.sentence);
    write_text(file, before);
  }
}

#ifdef FAILING_ALLOCATIONS
namespace {

/// A run of which an allocation fails, from the opening of a file on: with one sentence, if it
/// does. Whether there were as many allocations.
bool check_failing(const Finished& finished, const std::vector<std::string>& words,
                   const std::string& behind, int allocation) {
  const fs::path told = finished.folder.path() / "failed";
  fs::remove(told);
  const std::vector<std::pair<const char*, std::string>> variables{
      {"LD_PRELOAD", FAILING_ALLOCATIONS},
      {"FAIL_BEHIND", behind},
      {"FAIL_AT", std::to_string(allocation)},
      {"FAILED_FILE", told.string()}};
  for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
  ProgramRun run(finished.folder.path(), words);
  for (const auto& [name, value] : variables) ::unsetenv(name);
  const int code = run.wait();
  INFO("allocation " << allocation << " behind " << behind << ": " << run.errors());
  CHECK((code == 0 || code == 4 || code == 5));
  CHECK(lines_with(run.errors(), "error: ") == (code == 0 ? 0 : 1));
  return fs::exists(told);
}

/// One allocation after the other, the next so many times `growth` further: all of a long loop are
/// alike.
void fail_allocations(double growth) {
  const Finished finished("failing-allocations");
  const fs::path folder = finished.folder.path() / "ck", kept = finished.folder.path() / "kept";
  fs::copy(folder, kept, fs::copy_options::recursive);
  const std::vector<std::string> goes_on = finished.run(
      3, {"--resume", "ck", "--checkpoint", "ck", "--every", "1", "--transport", "threads"});
  for (const std::string behind : {"step-000003.part/rank-0.bin", "step-000002/manifest.json"}) {
    int allocation = 0;
    for (bool fails = true; fails; allocation += 1 + static_cast<int>(growth * allocation)) {
      fs::remove_all(folder);
      fs::copy(kept, folder, fs::copy_options::recursive);
      fails = check_failing(finished, goes_on, behind, allocation);
      const WholeCheckpoint left = newest_whole_checkpoint(folder);
      REQUIRE(left.folder);
      CHECK(left.problems.empty());
      CHECK(left.folder->filename() >= "step-000002");
      CHECK(fs::exists(folder / "step-000002"));
    }
    CHECK(allocation > 10);
  }
}

}  // namespace

TEST_CASE("whichever allocation fails while a checkpoint is written or read, a whole one is left",
          "[seconds]") {
  fail_allocations(0.5);
}

TEST_CASE("every single allocation may fail while a checkpoint is written or read", "[.every]") {
  fail_allocations(0);
}
#endif

TEST_CASE("a full disk ends the run with the file, what it needs and a way out", "[seconds]") {
  const Finished finished("full-disk");
  std::uintmax_t bytes = 0;
  for (const auto& file : fs::directory_iterator(finished.folder.path() / "ck/step-000002")) {
    bytes += file.file_size();
  }
  const std::string whole = finished.parameters(4);
  const SmallDisk disk(finished.folder.path() / "small", bytes * 17 / 10);
  if (!disk.is_there()) SKIP("this process may not mount a disk");
  ProgramRun run(finished.folder.path(),
                 finished.run(4, {"--checkpoint", "small", "--every", "1"}));
  CHECK(run.wait() == 5);
  CHECK(lines_with(run.errors(), "error: ") == 1);
  CHECK_THAT(
      run.errors(),
      ContainsSubstring(" failed while it wrote a checkpoint: ") &&
          ContainsSubstring("small/step-000002.part/rank-") &&
          ContainsSubstring(".bin: cannot be written: No space left on device; it needs ") &&
          ContainsSubstring(": make room, or write to another folder with --checkpoint; "
                            "earlier checkpoints are whole, --resume goes on from the last"));
  const fs::path small = finished.folder.path() / "small";
  CHECK(fs::exists(small / "step-000001/manifest.json"));
  CHECK_FALSE(fs::exists(small / "step-000002"));
  CHECK_FALSE(fs::exists(small / "step-000002.part"));
  REQUIRE(disk.grow());
  ProgramRun resumed(finished.folder.path(), finished.run(4, {"--resume", "small", "--checkpoint",
                                                              "small", "--every", "1"}));
  CHECK(resumed.wait() == 0);
  CHECK(value_of(resumed.output(), "parameters_xxh3") == whole);
}
