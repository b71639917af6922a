#include "executor/checkpoints/files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <system_error>

#include "executor/checkpoints/checkpoint.hpp"
#include "executor/weights/durable_file.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step-";
constexpr std::string_view unfinished_suffix = ".part";
const std::string what_to_do = concat("; ", checkpoint_remedy);

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

bool is_whole(const fs::path& checkpoint) {
  try {
    require_whole(read_checkpoint(checkpoint));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Under a name that no checkpoint has, for whoever wants to look at it.
void set_aside(const fs::path& damaged) {
  fs::path other = damaged;
  other += ".damaged";
  for (int i = 2; fs::exists(other); ++i) other = damaged.string() + concat(".damaged-", i);
  std::error_code error;
  fs::rename(damaged, other, error);
  if (error) fail_writing(other, error.value());
}

}  // namespace

fs::path checkpoint_folder(const fs::path& folder, int step) {
  return folder / fmt::format("{}{:06}", step_prefix, step);
}

fs::path unfinished_folder(const fs::path& folder, int step) {
  return checkpoint_folder(folder, step) += unfinished_suffix;
}

std::vector<int> steps_in(const fs::path& folder) {
  std::vector<int> steps;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::optional<int> step = step_of(entry.path());
    if (step && entry.is_directory(ignored)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::vector<int> checkpointed_steps(const fs::path& folder) {
  std::vector<int> steps = steps_in(folder);
  std::erase_if(steps, [&](int step) {
    std::error_code ignored;
    return !fs::exists(checkpoint_folder(folder, step) / manifest_name, ignored);
  });
  return steps;
}

std::optional<fs::path> latest_checkpoint(const fs::path& folder) {
  const std::vector<int> steps = checkpointed_steps(folder);
  if (steps.empty()) return {};
  return checkpoint_folder(folder, steps.back());
}

void make_checkpoints_folder(const fs::path& folder, SystemCalls& calls) {
  const auto refuse = [&](int error) {
    fail(folder.string(), ": checkpoints cannot be written here: ", std::strerror(error));
  };
  if (const int error = make_folders(folder, calls); error != 0) refuse(error);
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0) refuse(errno);
}

void prepare_checkpoints(const fs::path& folder, int first_step) {
  std::vector<int> later;
  for (const int step : checkpointed_steps(folder)) {
    if (step > first_step) later.push_back(step);
  }
  for (auto it = later.rbegin(); it != later.rend(); ++it) {
    const int step = *it;
    if (is_whole(checkpoint_folder(folder, step))) {
      fail(folder.string(), ": holds a checkpoint of step ", step,
           ", but the run begins after step ", first_step,
           "; go on from it with --resume, or write to another folder");
    }
  }
  for (const int step : later) set_aside(checkpoint_folder(folder, step));
  remove_unfinished(folder);
}

void begin_checkpoint(const fs::path& folder, int step, SystemCalls& calls) {
  abandon_checkpoint(folder, step, calls);
  const fs::path unfinished = unfinished_folder(folder, step);
  if (calls.make_folder(unfinished.c_str(), 0777) != 0) {
    fail_writing(unfinished, errno, what_to_do);
  }
}

/// A manifest that is gone first makes what is half removed no checkpoint.
void end_checkpoint(const fs::path& folder, int step, int keep, SystemCalls& calls) {
  const fs::path complete = checkpoint_folder(folder, step);
  remove_all(complete, calls);  // without a manifest, or there would be nothing to write
  make_durable(unfinished_folder(folder, step), calls);
  if (calls.rename(unfinished_folder(folder, step).c_str(), complete.c_str()) != 0) {
    fail_writing(complete, errno, what_to_do);
  }
  make_durable(folder, calls);
  const std::vector<int> steps = checkpointed_steps(folder);
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size(); ++i) {
    const fs::path old = checkpoint_folder(folder, steps[i]);
    calls.remove((old / manifest_name).c_str());
    remove_all(old, calls);
  }
}

void abandon_checkpoint(const fs::path& folder, int step, SystemCalls& calls) {
  remove_all(unfinished_folder(folder, step), calls);
}

}  // namespace stagecraft
