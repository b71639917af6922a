// Reading checkpoints: which one, whether it is whole, and single elements of it.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>

#include "executor/checkpoints/files.hpp"
#include "executor/checkpoints/manifest.hpp"
#include "executor/checkpoints/slices.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

/// A folder of checkpoints or one of them: that one, or the latest.
fs::path find_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::exists(path / manifest_name, ignored)) return path;
  if (!fs::is_directory(path, ignored)) fail(path.string(), ": no such folder of checkpoints");
  if (auto latest = latest_checkpoint(path)) return *std::move(latest);
  fail(path.string(), ": holds no complete checkpoint (a folder step-NNNNNN with a ", manifest_name,
       ")");
}

/// Where the file ends, by its manifest.
std::map<std::string, Bytes> sizes_of(const Checkpoint& checkpoint) {
  std::map<std::string, Bytes> sizes;
  for (const StoredState& state : checkpoint.states) {
    for (const StoredSlice& slice : state.slices) {
      Bytes& size = sizes[slice.file];
      size = std::max(size, slice.offset + bytes_of(state, slice));
    }
  }
  return sizes;
}

void require_whole_files(const Checkpoint& checkpoint) {
  for (const auto& [file, expected] : sizes_of(checkpoint)) {
    const fs::path path = checkpoint.folder / file;
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (error) fail(path.string(), ": cannot be read: ", error.message());
    if (static_cast<Bytes>(size) == expected) continue;
    fail(path.string(), ": has ", size, " bytes, but its checkpoint's manifest says ", expected,
         "; resume from another checkpoint");
  }
}

/// The bytes of a slice, which are those that were written.
std::string read_slice(const Checkpoint& checkpoint, const StoredState& state,
                       const StoredSlice& slice) {
  const fs::path path = checkpoint.folder / slice.file;
  std::string bytes(static_cast<std::size_t>(bytes_of(state, slice)), '\0');
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(path.string(), ": cannot be read: ", std::strerror(errno));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor, bytes.data() + done, bytes.size() - done,
                                  slice.offset + static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  if (done < bytes.size()) fail(path.string(), ": cannot be read to its end");
  if (content_hash(bytes) != slice.hash) {
    fail(path.string(), ": the bytes of ", state.name, " (", to_string(state.kind), ") at offset ",
         slice.offset,
         " are not those that were written (their hash differs); resume from another checkpoint");
  }
  return bytes;
}

const StoredState& find_state(const Checkpoint& checkpoint, std::string_view name, StateKind kind) {
  const auto found = std::ranges::find_if(checkpoint.states, [&](const StoredState& state) {
    return state.kind == kind && state.name == name;
  });
  if (found == checkpoint.states.end()) {
    fail(checkpoint.folder.string(), ": has no ", to_string(kind), " of ", name);
  }
  return *found;
}

}  // namespace

Checkpoint read_checkpoint(const fs::path& path) {
  Checkpoint checkpoint = read_manifest(find_checkpoint(path) / manifest_name);
  require_whole_files(checkpoint);
  return checkpoint;
}

void require_whole(const Checkpoint& checkpoint) {
  for (const StoredState& state : checkpoint.states) {
    for (const StoredSlice& slice : state.slices) read_slice(checkpoint, state, slice);
  }
}

namespace {

WholeCheckpoint newest_whole_of(const fs::path& folder, const std::vector<int>& steps) {
  WholeCheckpoint found;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const fs::path path = checkpoint_folder(folder, *step);
    try {
      if (!fs::exists(path / manifest_name)) fail(path.string(), ": has no ", manifest_name);
      require_whole(read_checkpoint(path));
      found.folder = path;
      break;
    } catch (const Error& error) {
      found.problems.emplace_back(error.what());
    }
  }
  for (std::string& problem : found.problems) {
    if (found.folder) problem += "; the checkpoint before it is used";
  }
  return found;
}

}  // namespace

/// A run that writes there meanwhile may remove those that were listed, for it has newer ones.
WholeCheckpoint newest_whole_checkpoint(const fs::path& folder) {
  while (true) {
    const std::vector<int> steps = steps_in(folder);
    WholeCheckpoint found = newest_whole_of(folder, steps);
    if (found.problems.empty() || steps_in(folder) == steps) return found;
  }
}

std::string all_are_damaged(const fs::path& folder, const WholeCheckpoint& found) {
  const std::size_t count = found.problems.size();
  if (found.folder || count < 2) return "";
  return concat(folder.string(), ": all ", count,
                " of its checkpoints are damaged; the newest: ", found.problems.front());
}

int updates_of(const Checkpoint& checkpoint, std::string_view name) {
  return find_state(checkpoint, name, StateKind::weight).updates;
}

Tensor read_state(const Checkpoint& checkpoint, std::string_view name, StateKind kind,
                  const WeightSlice& wanted) {
  const StoredState& state = find_state(checkpoint, name, kind);
  Tensor values = host_tensor({wanted.elements()}, state.precision);
  const std::vector<Run> runs = runs_of(wanted, state.shape);
  const Bytes size = element_bytes(state.precision);
  std::int64_t found = 0;
  for (const StoredSlice& stored : state.slices) {
    const std::vector<Copy> copies = common_elements(runs_of(stored.slice, state.shape), runs);
    if (copies.empty()) continue;
    const std::string bytes = read_slice(checkpoint, state, stored);
    for (const Copy& copy : copies) {
      std::memcpy(values.data<char>() + copy.to * size, bytes.data() + copy.from * size,
                  static_cast<std::size_t>(copy.count * size));
      found += copy.count;
    }
  }
  if (found != wanted.elements()) {
    fail(checkpoint.folder.string(), ": has ", found, " of the ", wanted.elements(),
         " elements that are needed of ", name, " (", to_string(kind), ")");
  }
  return values;
}

}  // namespace stagecraft
