// Power cuts. What a checkpoint's writer asks of the system is recorded; for every moment of it a
// disk is made up that holds what was safe by then, and no more than it must of the rest: without
// fsync, bytes and names may be lost, each without the other and in any order (Pillai et al.,
// 2014).

#include <fcntl.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "executor/checkpoints/files.hpp"
#include "executor/checkpoints/writer.hpp"
#include "executor/weights/tensor_files.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

struct DiskCall {
  enum class Kind { open, truncate, write, sync, rename, make_folder, remove };
  Kind kind = Kind::open;
  int file = -1;               ///< its descriptor
  std::filesystem::path path;  ///< from the root, as the next
  std::filesystem::path to;
  std::string bytes;
};

/// The system's calls, and what they were.
class RecordingCalls final : public SystemCalls {
 public:
  explicit RecordingCalls(std::filesystem::path root) : root_(std::move(root)) {}

  int open(const char* path, int flags, mode_t mode) override {
    const std::lock_guard lock(mutex_);
    const int file = SystemCalls::open(path, flags, mode);
    if (file >= 0) calls_.push_back({.file = file, .path = below_root(path)});
    return file;
  }
  int truncate(int file, off_t bytes) override {
    return noted({.kind = DiskCall::Kind::truncate, .file = file},
                 [&] { return SystemCalls::truncate(file, bytes); });
  }
  ssize_t write(int file, const void* bytes, std::size_t count) override {
    const std::lock_guard lock(mutex_);
    const ssize_t written = SystemCalls::write(file, bytes, count);
    if (written > 0) {
      calls_.push_back(
          {.kind = DiskCall::Kind::write,
           .file = file,
           .bytes = {static_cast<const char*>(bytes), static_cast<std::size_t>(written)}});
    }
    return written;
  }
  int sync(int file) override {
    return noted({.kind = DiskCall::Kind::sync, .file = file},
                 [&] { return SystemCalls::sync(file); });
  }
  int close(int file) override {
    const std::lock_guard lock(mutex_);  // its number is given to the next
    return SystemCalls::close(file);
  }
  int rename(const char* from, const char* to) override {
    return noted({.kind = DiskCall::Kind::rename, .path = below_root(from), .to = below_root(to)},
                 [&] { return SystemCalls::rename(from, to); });
  }
  int make_folder(const char* path, mode_t mode) override {
    return noted({.kind = DiskCall::Kind::make_folder, .path = below_root(path)},
                 [&] { return SystemCalls::make_folder(path, mode); });
  }
  int remove(const char* path) override {
    return noted({.kind = DiskCall::Kind::remove, .path = below_root(path)},
                 [&] { return SystemCalls::remove(path); });
  }

  /// From here on there is a checkpoint of this step, or of a later one.
  void promise(int step) { promises_[calls_.size()] = step; }
  const std::vector<DiskCall>& calls() const { return calls_; }
  const std::map<std::size_t, int>& promises() const { return promises_; }

 private:
  std::filesystem::path below_root(const char* path) const {
    return std::filesystem::weakly_canonical(path).lexically_relative(
        std::filesystem::weakly_canonical(root_));
  }
  template <class Call>
  int noted(DiskCall what, const Call& call) {
    const std::lock_guard lock(mutex_);
    const int result = call();
    if (result == 0) calls_.push_back(std::move(what));
    return result;
  }

  std::filesystem::path root_;
  std::mutex mutex_;
  std::vector<DiskCall> calls_;
  std::map<std::size_t, int> promises_;  ///< by the number of calls before
};

/// Of what is not safe, what a power cut leaves.
enum class Kept { nothing, removals, names };

struct DiskNode {
  bool is_folder = false;
  std::string data, safe_data;
  std::map<std::string, std::shared_ptr<DiskNode>> entries, safe_entries;
  std::set<std::string> removed;  ///< since the folder was safe

  std::map<std::string, std::shared_ptr<DiskNode>> kept(Kept what) const {
    auto left = what == Kept::names ? entries : safe_entries;
    for (const std::string& name : removed) {
      if (what == Kept::removals) left.erase(name);
    }
    return left;
  }
};

class SimulatedDisk {
 public:
  void apply(const DiskCall& call) {
    const std::string name = call.path.filename().string();
    switch (call.kind) {
      case DiskCall::Kind::open: files_[call.file] = opened(call.path); break;
      case DiskCall::Kind::truncate: files_.at(call.file)->data.clear(); break;
      case DiskCall::Kind::write: files_.at(call.file)->data += call.bytes; break;
      case DiskCall::Kind::sync: make_safe(*files_.at(call.file)); break;
      case DiskCall::Kind::rename: {
        auto moved = folder_of(call.path).entries.extract(name);
        folder_of(call.to).entries[call.to.filename().string()] = moved.mapped();
        break;
      }
      case DiskCall::Kind::make_folder: {
        auto& made = folder_of(call.path).entries[name] = std::make_shared<DiskNode>();
        made->is_folder = true;
        break;
      }
      case DiskCall::Kind::remove:
        folder_of(call.path).entries.erase(name);
        folder_of(call.path).removed.insert(name);
        break;
    }
  }

  /// Every file that is left, with its content; of folders the names, with a slash.
  std::map<std::string, std::string> left(Kept kept) const {
    std::map<std::string, std::string> all;
    collect(*root_, "", kept, all);
    return all;
  }

 private:
  static void collect(const DiskNode& folder, const std::string& path, Kept kept,
                      std::map<std::string, std::string>& all) {
    for (const auto& [name, node] : folder.kept(kept)) {
      if (!node->is_folder) {
        all[path + name] = node->safe_data;
        continue;
      }
      all[path + name + "/"] = "";
      collect(*node, path + name + "/", kept, all);
    }
  }
  static void make_safe(DiskNode& node) {
    node.safe_data = node.data;
    node.safe_entries = node.entries;
    node.removed.clear();
  }
  DiskNode& folder_of(const std::filesystem::path& path) {
    DiskNode* at = root_.get();
    for (const auto& part : path.parent_path()) at = at->entries.at(part.string()).get();
    return *at;
  }
  std::shared_ptr<DiskNode> opened(const std::filesystem::path& path) {
    if (path == ".") return root_;
    auto& node = folder_of(path).entries[path.filename().string()];
    if (!node) node = std::make_shared<DiskNode>();
    return node;
  }

  std::shared_ptr<DiskNode> root_ = std::make_shared<DiskNode>(DiskNode{.is_folder = true});
  std::map<int, std::shared_ptr<DiskNode>> files_;
};

void write_out(const std::map<std::string, std::string>& disk, const TemporaryFolder& folder) {
  for (const auto& [name, content] : disk) {
    const std::filesystem::path path = folder.path() / name;
    name.ends_with('/') ? static_cast<void>(std::filesystem::create_directory(path))
                        : write_file(path, content);
  }
}

/// The step of the newest whole checkpoint of a disk; 0 if there is none.
int newest_step_on(const std::map<std::string, std::string>& disk,
                   const std::filesystem::path& checkpoints) {
  const TemporaryFolder folder;
  write_out(disk, folder);
  const auto found = newest_whole_checkpoint(folder.path() / checkpoints).folder;
  return found ? std::stoi(found->filename().string().substr(5)) : 0;
}

/// What a cut at some moment would take of what was promised; empty if there is no such moment.
/// Without the call of this number.
std::string lost_by_a_cut(const RecordingCalls& recorded, const std::filesystem::path& checkpoints,
                          std::size_t without = SIZE_MAX) {
  SimulatedDisk disk;
  int promised = 0;
  std::set<std::map<std::string, std::string>> judged;
  for (std::size_t i = 0; i <= recorded.calls().size(); ++i) {
    if (recorded.promises().contains(i)) {
      promised = recorded.promises().at(i);
      judged.clear();
    }
    for (const Kept kept : {Kept::nothing, Kept::removals, Kept::names}) {
      const auto left = disk.left(kept);
      if (promised == 0 || !judged.insert(left).second) continue;
      const int newest = newest_step_on(left, checkpoints);
      if (newest < promised) {
        return concat("after call ", i, " the newest whole checkpoint is of step ", newest,
                      ", but that of step ", promised, " was promised");
      }
    }
    if (i < recorded.calls().size() && i != without) disk.apply(recorded.calls()[i]);
  }
  return "";
}

}  // namespace

TEST_CASE(
    "a power cut leaves the checkpoint that was there, whenever it comes; for that each fsync "
    "is needed") {
  const TemporaryFolder root;
  RecordingCalls calls(root.path());
  const std::filesystem::path checkpoints = std::filesystem::path("new") / "ck";
  const auto backend = make_cpu_backend();
  const ParameterSpec spec{.name = "w", .shape = {4, 3}, .initialization = {}, .shard = {}};
  const auto transports = make_thread_transports({.ranks = 2, .channels = {}, .groups = {}});
  {
    CheckpointWriter writer({.model = "m"},
                            {.folder = root.path() / checkpoints, .keep = 1, .calls = &calls}, 0);
    for (int step = 1; step <= 3; ++step) {
      {
        std::vector<std::jthread> ranks;
        for (const auto& transport : transports) {
          ranks.emplace_back([&] {
            const int first = 6 * transport->rank();
            const WeightSlice half{{}, first, first + 6};
            Tensor values = backend->allocate({6}, Precision::float32);
            for (std::size_t i = 0; i < 6; ++i) set(values, i, step + 0.5 * first);
            writer.write(*transport, *backend, {{&spec, StateKind::weight, half, values}},
                         {.steps = step});
          });
        }
      }
      calls.promise(step);
    }
  }
  CHECK(lost_by_a_cut(calls, checkpoints) == "");
  int syncs = 0;
  for (std::size_t i = 0; i < calls.calls().size(); ++i) {
    if (calls.calls()[i].kind != DiskCall::Kind::sync) continue;
    INFO("without call " << i << ", the fsync number " << syncs++);
    CHECK(lost_by_a_cut(calls, checkpoints, i) != "");
  }
  CHECK(syncs ==
        2 + 3 * 5);  // two new folders; two ranks' files, manifest, its folder, the one above
}

namespace {

/// Whether the tensors can be read from what a cut leaves that comes behind all calls but one.
bool are_saved(const RecordingCalls& recorded, const std::filesystem::path& folder,
               std::size_t without = SIZE_MAX) {
  SimulatedDisk disk;
  for (std::size_t i = 0; i < recorded.calls().size(); ++i) {
    if (i != without) disk.apply(recorded.calls()[i]);
  }
  for (const Kept kept : {Kept::nothing, Kept::removals, Kept::names}) {
    const TemporaryFolder left;
    write_out(disk.left(kept), left);
    try {
      const TensorFiles files = open_tensor_files(left.path() / folder);
      for (const char* name : {"a", "b"}) {
        const auto found = find(files, name);
        if (found.tensor == nullptr) return false;
        read_tensor(*found.file, *found.tensor, Precision::float32);
      }
    } catch (const Error&) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE(
    "weights that have been saved are there behind a power cut; for that their fsyncs are needed") {
  const TemporaryFolder root;
  RecordingCalls calls(root.path());
  const std::filesystem::path folder = std::filesystem::path("new") / "weights";
  const auto backend = make_cpu_backend();
  std::vector<NamedTensor> tensors;
  for (const char* name : {"a", "b"})
    tensors.push_back({name, backend->allocate({4}, Precision::float32)});
  write_tensor_files(root.path() / folder / "", tensors, 16, calls);
  CHECK(are_saved(calls, folder));
  std::map<int, std::filesystem::path> open;
  std::map<std::filesystem::path, std::size_t> last_sync;  // the folder's come behind each file
  for (std::size_t i = 0; i < calls.calls().size(); ++i) {
    const DiskCall& call = calls.calls()[i];
    if (call.kind == DiskCall::Kind::open) open[call.file] = call.path;
    if (call.kind == DiskCall::Kind::sync) last_sync[open[call.file]] = i;
  }
  for (const auto& [path, i] : last_sync) {
    INFO("without the last fsync of " << path);
    CHECK_FALSE(are_saved(calls, folder, i));
  }
  CHECK(last_sync.size() == 3 + 3);  // the root and two new folders; two parts and the index
}
