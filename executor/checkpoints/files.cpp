#include "executor/checkpoints/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "executor/checkpoints/checkpoint.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view unfinished_suffix = ".part";

[[noreturn]] void fail_writing(const fs::path& path, const std::string& reason) {
  throw Error(ErrorKind::execution, concat(path.string(), ": cannot be written: ", reason));
}

/// The step of "step-000123"; nothing for other names.
std::optional<int> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(step_prefix)) return {};
  int step = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + step_prefix.size(), end, step);
  if (error != std::errc() || rest != end) return {};
  return step;
}

void remove_unfinished(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(step_prefix) || !name.ends_with(unfinished_suffix)) continue;
    fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

fs::path checkpoint_folder(const fs::path& folder, int step) {
  return folder / fmt::format("{}{:06}", step_prefix, step);
}

fs::path unfinished_folder(const fs::path& folder, int step) {
  return checkpoint_folder(folder, step) += unfinished_suffix;
}

DurableFile::DurableFile(fs::path path, Bytes whole)
    : path_(std::move(path)),
      whole_(whole),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail();
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DurableFile::fail() const {
  fail_writing(path_,
               concat(std::strerror(errno), "; it needs ", format_bytes(whole_), " (", whole_,
                      " bytes): make room, or write to another folder with --checkpoint; "
                      "earlier checkpoints are whole, --resume goes on from the last"));
}

void DurableFile::write(std::string_view bytes) {
  size_ += static_cast<Bytes>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void DurableFile::finish() {
  if (::fsync(descriptor_) != 0) fail();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail();
}

void make_durable(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!done) fail_writing(folder, std::strerror(error));
}

std::vector<int> checkpointed_steps(const fs::path& folder) {
  std::vector<int> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::optional<int> step = step_of(entry.path());
    if (step && fs::exists(entry.path() / manifest_name, ignored)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<fs::path> latest_checkpoint(const fs::path& folder) {
  const std::vector<int> steps = checkpointed_steps(folder);
  if (steps.empty()) return {};
  return checkpoint_folder(folder, steps.back());
}

void prepare_checkpoints(const fs::path& folder, int first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) fail(folder.string(), ": checkpoints cannot be written here: ", error.message());
  const std::vector<int> steps = checkpointed_steps(folder);
  if (!steps.empty() && steps.back() > first_step) {
    fail(folder.string(), ": holds a checkpoint of step ", steps.back(),
         ", but the run begins after step ", first_step,
         "; go on from it with --resume, or write to another folder");
  }
  remove_unfinished(folder);
}

void begin_checkpoint(const fs::path& folder, int step) {
  abandon_checkpoint(folder, step);
  const fs::path unfinished = unfinished_folder(folder, step);
  std::error_code error;
  fs::create_directory(unfinished, error);
  if (error) fail_writing(unfinished, error.message());
}

/// A manifest that is gone first makes what is half removed no checkpoint.
void end_checkpoint(const fs::path& folder, int step, int keep) {
  const fs::path complete = checkpoint_folder(folder, step);
  std::error_code error;
  fs::remove_all(complete, error);  // without a manifest, or there would be nothing to write
  make_durable(unfinished_folder(folder, step));
  fs::rename(unfinished_folder(folder, step), complete, error);
  if (error) fail_writing(complete, error.message());
  make_durable(folder);
  const std::vector<int> steps = checkpointed_steps(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) {
    const fs::path old = checkpoint_folder(folder, steps[i]);
    fs::remove(old / manifest_name, error);
    fs::remove_all(old, error);
  }
}

void abandon_checkpoint(const fs::path& folder, int step) {
  std::error_code ignored;
  fs::remove_all(unfinished_folder(folder, step), ignored);
}

}  // namespace stagecraft
