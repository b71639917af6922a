// Checkpoints on their way to disk and back: slices, unfinished ones, full disks, damage.

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "executor/checkpoints/files.hpp"
#include "executor/checkpoints/manifest.hpp"
#include "executor/checkpoints/slices.hpp"
#include "executor/checkpoints/writer.hpp"
#include "executor/weights/safetensors.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

/// The columns, or rows, [0, extent) of a weight dealt out at random to so many peers.
std::vector<WeightShard> dealt(const std::vector<std::int64_t>& whole, bool columns, int peers,
                               std::mt19937& random) {
  std::vector<WeightShard> shards(static_cast<std::size_t>(peers),
                                  {.whole = whole, .columns = columns, .ranges = {}});
  const std::int64_t extent = columns ? whole.back() : whole.front();
  for (std::int64_t i = 0; i < extent; ++i) {
    shards[random() % shards.size()].ranges.emplace_back(i, i + 1);
  }
  return shards;
}

/// The parts' elements in the order of the shard: element e of the whole is the number e.
Tensor numbered(Backend& backend, const WeightSlice& slice,
                const std::vector<std::int64_t>& whole) {
  Tensor tensor = backend.allocate({slice.elements()}, Precision::float64);
  for (const Run& run : runs_of(slice, whole)) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      set(tensor, static_cast<std::size_t>(run.slice + i), static_cast<double>(run.whole + i));
    }
  }
  return tensor;
}

/// Two steps of a small run, a checkpoint behind each.
struct TwoSteps {
  TemporaryFolder folder;
  Prepared prepared = prepare({.devices = 2});

  TwoSteps() { run(prepared, options(2)); }
  RunOptions options(int steps) const {
    RunOptions all{.steps = steps};
    all.checkpoints = {.folder = folder.path(), .every = 1, .keep = 10};
    return all;
  }
  fs::path second() const { return folder.path() / "step-000002"; }
  RunOptions resuming() const {
    RunOptions all{.steps = 1};
    all.resume = std::make_shared<Checkpoint>(read_checkpoint(folder.path()));
    return all;
  }
  std::string message(const Prepared& other, const RunOptions& options) const {
    return message_of([&] { run(other, options); });
  }
  /// With the manifest's text changed, and its own hash right again.
  void change(const std::string& from, const std::string& to) const {
    std::string text = read_file(second() / manifest_name);
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    write_file(second() / manifest_name, text);
  }
  std::string read_message() const {
    return message_of([&] { read_checkpoint(folder.path()); });
  }
};

/// The system's calls, of which one fails.
class FailingCalls final : public SystemCalls {
 public:
  FailingCalls(int which, int error) : which_(which), error_(error) {}

  int open(const char* path, int flags, mode_t mode) override {
    return fails() ? -1 : SystemCalls::open(path, flags, mode);
  }
  int truncate(int descriptor, off_t bytes) override {
    return fails() ? -1 : SystemCalls::truncate(descriptor, bytes);
  }
  ssize_t write(int descriptor, const void* bytes, std::size_t count) override {
    return fails() ? -1 : SystemCalls::write(descriptor, bytes, count);
  }
  int sync(int descriptor) override { return fails() ? -1 : SystemCalls::sync(descriptor); }
  /// As on Linux: it is closed whatever comes back.
  int close(int descriptor) override {
    const int result = SystemCalls::close(descriptor);
    return fails() ? -1 : result;
  }
  int rename(const char* from, const char* to) override {
    return fails() ? -1 : SystemCalls::rename(from, to);
  }
  int make_folder(const char* path, mode_t mode) override {
    return fails() ? -1 : SystemCalls::make_folder(path, mode);
  }
  /// Whether there were as many calls.
  bool has_failed() const { return count_ > which_; }

 private:
  bool fails() {
    if (count_++ != which_) return false;
    errno = error_;
    return true;
  }

  std::atomic<int> count_ = 0;
  int which_;
  int error_;
};

/// The system's calls, with a look at what they have come to behind each.
class LookedAtCalls final : public SystemCalls {
 public:
  explicit LookedAtCalls(std::function<void()> look) : look_(std::move(look)) {}

  int truncate(int descriptor, off_t bytes) override {
    return looked(SystemCalls::truncate(descriptor, bytes));
  }
  int sync(int descriptor) override { return looked(SystemCalls::sync(descriptor)); }
  int rename(const char* from, const char* to) override {
    return looked(SystemCalls::rename(from, to));
  }
  int make_folder(const char* path, mode_t mode) override {
    return looked(SystemCalls::make_folder(path, mode));
  }
  int remove(const char* path) override { return looked(SystemCalls::remove(path)); }

 private:
  int looked(int result) {
    const std::lock_guard lock(mutex_);
    const int error = errno;
    look_();
    errno = error;
    return result;
  }

  std::function<void()> look_;
  std::mutex mutex_;
};

}  // namespace

TEST_CASE("whichever call fails while a checkpoint is written, a whole one is the newest") {
  const TwoSteps steps;
  int failures = 0;
  for (bool reached = true; reached; failures += is_watched ? 3 : 1) {
    REQUIRE(failures < 500);
    INFO("call " << failures);
    FailingCalls calls(failures, failures % 2 == 0 ? ENOSPC : EIO);
    RunOptions options = steps.resuming();
    options.checkpoints = {.folder = steps.folder.path(), .every = 1, .keep = 10};
    options.checkpoints.calls = &calls;
    try {
      run(steps.prepared, options);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::execution);
      CHECK_THAT(error.what(), ContainsSubstring(": cannot be written: "));
    }
    const WholeCheckpoint newest = newest_whole_checkpoint(steps.folder.path());
    CHECK(newest.folder);
    CHECK(newest.problems.empty());
    for (const auto& entry : fs::directory_iterator(steps.folder.path())) {
      CHECK(fs::exists(entry.path() / manifest_name));  // nothing else is left
    }
    reached = calls.has_failed();
    fs::remove_all(steps.folder.path() / "step-000003");
  }
  CHECK(failures > 15);
}

TEST_CASE("who looks for the newest checkpoint while a run writes there finds one, at every call") {
  const TwoSteps steps;
  int looked = 0;
  std::vector<std::string> wrong;  // Catch checks on one thread
  LookedAtCalls calls([&] {
    ++looked;
    const WholeCheckpoint newest = newest_whole_checkpoint(steps.folder.path());
    if (!newest.folder) wrong.emplace_back("there is none");
    wrong.insert(wrong.end(), newest.problems.begin(), newest.problems.end());
  });
  RunOptions options = steps.resuming();
  options.steps = 3;
  options.checkpoints = {.folder = steps.folder.path(), .every = 1, .keep = 1};
  options.checkpoints.calls = &calls;
  run(steps.prepared, options);
  CHECK(checkpointed_steps(steps.folder.path()) == std::vector{5});
  CHECK(wrong == std::vector<std::string>{});
  CHECK(looked > 30);
}

TEST_CASE("weights are not written through a symbolic link that somebody has put in their way") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "weights.safetensors", other = folder.path() / "other";
  write_file(other, "precious");
  fs::create_symlink(other, folder.path() / "weights.safetensors.part");
  const auto backend = make_cpu_backend();
  const std::vector<NamedTensor> weights{{"w", backend->allocate({2}, Precision::float32)}};
  const std::string message = message_of([&] { write_tensor_file(file, weights); });
  CHECK_THAT(message, ContainsSubstring("weights.safetensors.part: cannot be written: it is a "
                                        "symbolic link"));
  CHECK(read_file(other) == "precious");
  fs::remove(folder.path() / "weights.safetensors.part");
  write_tensor_file(file, weights);
  CHECK(fs::exists(file));
  CHECK_FALSE(fs::exists(folder.path() / "weights.safetensors.part"));
}

TEST_CASE("a slice's runs are its elements, in the whole and in the slice") {
  const std::vector<std::int64_t> whole{3, 8};
  CHECK(runs_of({{}, 5, 9}, whole) == std::vector<Run>{{5, 0, 4}});
  const WeightShard columns{.whole = whole, .columns = true, .ranges = {{6, 8}, {1, 2}}};
  CHECK(runs_of({columns, 1, 7}, whole) ==
        std::vector<Run>{{1, 1, 1}, {7, 0, 1}, {9, 4, 1}, {14, 2, 2}, {22, 5, 1}});
  const WeightShard rows{.whole = whole, .columns = false, .ranges = {{2, 3}, {0, 1}}};
  CHECK(runs_of({rows, 4, 12}, whole) == std::vector<Run>{{0, 4, 4}, {20, 0, 4}});
}

TEST_CASE("whoever holds which rows or columns: others read the elements that were written") {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const std::vector<std::int64_t> whole{1 + std::int64_t(random() % 6),
                                          1 + std::int64_t(random() % 9)};
    const auto backend = make_cpu_backend();
    const TemporaryFolder folder;
    const ParameterSpec spec{.name = "w", .shape = whole, .initialization = {}, .shard = {}};
    const int writers = 1 + static_cast<int>(random() % 3);
    const auto shards = dealt(whole, random() % 2 == 0, writers, random);
    std::vector<ParameterSpec> specs(shards.size(), spec);
    std::vector<std::vector<HeldState>> held(shards.size());
    for (std::size_t i = 0; i < shards.size(); ++i) {
      specs[i].shard = shards[i];
      const std::int64_t elements = elements_of_part(shards[i], whole);
      for (std::size_t part = 0; part < 2; ++part) {
        const WeightSlice slice{shards[i], part_begin(elements, part, 2),
                                part_begin(elements, part + 1, 2)};
        held[i].push_back({&specs[i], StateKind::weight, slice, numbered(*backend, slice, whole)});
      }
    }
    CheckpointWriter writer({.model = "m"}, {.folder = folder.path(), .slice_bytes = 24}, 0);
    const auto transports =
        make_thread_transports({.ranks = writers, .channels = {}, .groups = {}});
    {
      std::vector<std::jthread> ranks;
      for (const auto& transport : transports) {
        ranks.emplace_back([&] {
          writer.write(*transport, *backend, held[static_cast<std::size_t>(transport->rank())],
                       {.steps = 7});
        });
      }
    }
    const Checkpoint checkpoint = read_checkpoint(folder.path());
    for (const WeightShard& shard : dealt(whole, random() % 2 == 0, 3, random)) {
      const std::int64_t elements = elements_of_part(shard, whole);
      const WeightSlice wanted{shard, elements / 3, elements};
      CHECK(bitwise_equal(read_state(checkpoint, "w", StateKind::weight, wanted),
                          numbered(*backend, wanted, whole)));
    }
  }
}

TEST_CASE("what a killed run left unfinished is ignored, and cleaned up by the next") {
  const TwoSteps run_of_two;
  const fs::path part = unfinished_folder(run_of_two.folder.path(), 3);
  fs::create_directory(part);
  write_file(part / "rank-0.bin", "half");
  fs::create_directory(run_of_two.folder.path() / "step-000009");  // without a manifest
  CHECK(read_checkpoint(run_of_two.folder.path()).position.steps == 2);
  RunOptions options = run_of_two.options(1);
  options.resume = run_of_two.resuming().resume;
  run(run_of_two.prepared, options);
  CHECK(!fs::exists(part));
  CHECK(checkpointed_steps(run_of_two.folder.path()) == std::vector{1, 2, 3});
}

TEST_CASE(
    "a full disk ends the run with the name of the file, and what was written before is whole") {
  const TwoSteps run_of_two;
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  RunOptions options = run_of_two.options(5);
  options.resume = run_of_two.resuming().resume;
  options.on_step = [&](const StepReport& report) {
    const rlimit full{.rlim_cur = 20000, .rlim_max = before.rlim_max};
    if (report.step == 3) setrlimit(RLIMIT_FSIZE, &full);
  };
  const auto carry_out = [&] { run(run_of_two.prepared, options); };
  std::string message;
  int code = 0;
  try {
    carry_out();
  } catch (const Error& error) {
    message = error.what();
    code = exit_code(error.kind());
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(code == 5);
  CHECK_THAT(message, ContainsSubstring(" failed while it wrote a checkpoint: ") &&
                          ContainsSubstring("step-000004.part/rank-") &&
                          ContainsSubstring(".bin: cannot be written: File too large; it needs "));
  CHECK(checkpointed_steps(run_of_two.folder.path()) == std::vector{1, 2, 3});
  CHECK(run_of_two.message(run_of_two.prepared, run_of_two.resuming()).empty());
}

TEST_CASE("checkpoints of a later step are not overwritten, and folders must be folders") {
  const TwoSteps run_of_two;
  const std::string text = run_of_two.message(run_of_two.prepared, run_of_two.options(1));
  CHECK_THAT(text, ContainsSubstring("holds a checkpoint of step 2, but the run begins after step "
                                     "0; go on from it with --resume, or write to another folder"));
  RunOptions options = run_of_two.options(1);
  options.checkpoints.folder = run_of_two.folder.file("file", "text") + "/below";
  CHECK_THAT(run_of_two.message(run_of_two.prepared, options),
             ContainsSubstring("checkpoints cannot be written here: Not a directory"));
}

TEST_CASE("damaged files are found: cut off, gone, or with another byte") {
  const TwoSteps run_of_two;
  const fs::path file = run_of_two.second() / "rank-1.bin";
  const auto size = fs::file_size(file);
  std::string bytes = read_file(file);
  fs::resize_file(file, size - 1);
  CHECK_THAT(run_of_two.read_message(),
             ContainsSubstring(concat("rank-1.bin: has ", size - 1,
                                      " bytes, but its checkpoint's manifest says ", size)));
  fs::remove(file);
  CHECK_THAT(run_of_two.read_message(), ContainsSubstring("rank-1.bin: cannot be read"));
  bytes[bytes.size() / 2] ^= 1;
  write_file(file, bytes);
  const auto resume = [&] { run(run_of_two.prepared, run_of_two.resuming()); };
  CHECK(exit_code_of(resume) == 3);
  CHECK_THAT(message_of(resume),
             ContainsSubstring(" failed before it began: ") &&
                 ContainsSubstring("rank-1.bin: the bytes of ") &&
                 ContainsSubstring("are not those that were written (their hash differs)"));
}

TEST_CASE("a checkpoint of other training is refused with what is other") {
  const TwoSteps run_of_two;
  const RunOptions resuming = run_of_two.resuming();
  const auto message = [&](const Setting& setting) {
    return run_of_two.message(prepare(setting), resuming);
  };
  CHECK(message({.devices = 2}).empty());
  CHECK_THAT(message({.devices = 2, .tied = false}),
             ContainsSubstring("is a checkpoint of tiny, which has fewer weights; the plan"));
  CHECK_THAT(message({.devices = 2, .heads = 4}),
             ContainsSubstring("is a checkpoint of tiny, which has a ") &&
                 ContainsSubstring(" of shape [") && ContainsSubstring("] instead of ["));
  CHECK_THAT(message({.devices = 2, .precision = Precision::float64}),
             ContainsSubstring("holds fp32, but the plan trains in fp64"));
  CHECK_THAT(message({.devices = 2, .optimizer = OptimizerKind::sgd}),
             ContainsSubstring("holds the state of adamw, but the plan trains with sgd"));
  CHECK_THAT(message({.schedule = "inference", .devices = 2}),
             ContainsSubstring("inference trains nothing"));
  RunOptions other_seed = resuming;
  other_seed.seed = 2;
  CHECK_THAT(run_of_two.message(run_of_two.prepared, other_seed),
             ContainsSubstring("was trained with the seed 1, not 2; resume with --seed 1"));
  Prepared other_data = prepare({.devices = 2});
  other_data.dataset = synthetic_dataset(256, 3000, 7);
  CHECK_THAT(run_of_two.message(other_data, resuming),
             ContainsSubstring("was trained on other data (synthetic text of 2000 tokens, seed 7) "
                               "than synthetic text of 3000 tokens, seed 7"));
}

TEST_CASE("a manifest is complete, of this format, and as it was written", "[seconds]") {
  const auto message = [](const std::string& from, const std::string& to) {
    const TwoSteps run_of_two;
    run_of_two.change(from, to);
    return run_of_two.read_message();
  };
  CHECK_THAT(message("stagecraft-checkpoint/1", "stagecraft-checkpoint/2"),
             ContainsSubstring("manifest.json:2:") &&
                 ContainsSubstring("was written by a newer stagecraft"));
  CHECK_THAT(message("\"step\": 2", "\"step\": 3"),
             ContainsSubstring("the manifest has been changed since it was written"));
  CHECK_THAT(message("\"step\": 2,\n  ", ""), ContainsSubstring("\"step\" is missing"));
  CHECK_THAT(message("\"bytes\": ", "\"bytes\": 1"), ContainsSubstring("its elements need "));
  CHECK_THAT(message("\"file\": \"", "\"file\": \"../"),
             ContainsSubstring("expected the name of a file beside this one"));
  CHECK_THAT(message("\"state\": \"", "\"state\": \"third_"), ContainsSubstring("third_"));
  CHECK_THAT(message("{", "["), ContainsSubstring("manifest.json:"));
}

TEST_CASE("a tensor or a part of it that a manifest leaves out is missed") {
  const TwoSteps run_of_two;
  const fs::path file = run_of_two.second() / manifest_name;
  Checkpoint checkpoint = read_manifest(file);
  const StoredState state = checkpoint.states.front();
  checkpoint.states.erase(checkpoint.states.begin());
  write_file(file, write_manifest(checkpoint));
  CHECK_THAT(run_of_two.message(run_of_two.prepared, run_of_two.resuming()),
             ContainsSubstring(concat("has no ", to_string(state.kind), " of ", state.name)));
  checkpoint.states.push_back(state);
  checkpoint.states.back().slices.clear();
  write_file(file, write_manifest(checkpoint));
  CHECK_THAT(run_of_two.message(run_of_two.prepared, run_of_two.resuming()),
             ContainsSubstring("has 0 of the ") && ContainsSubstring(" elements that are needed"));
}

TEST_CASE("folders without a checkpoint are told apart") {
  const TemporaryFolder folder;
  CHECK_THAT(message_of([&] { read_checkpoint(folder.path()); }),
             ContainsSubstring("holds no complete checkpoint"));
  CHECK_THAT(message_of([&] { read_checkpoint(folder.path() / "none"); }),
             ContainsSubstring("no such folder of checkpoints"));
}
