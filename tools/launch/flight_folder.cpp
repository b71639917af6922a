#include "tools/launch/flight_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "executor/flight/diagnosis.hpp"

namespace stagecraft {
namespace {

/// The same in all processes of a job: what its launcher calls it; empty for a process alone.
std::string job_name() {
  for (const char* variable : {"PMIX_NAMESPACE", "SLURM_JOB_ID"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string name = value;
    std::ranges::replace_if(
        name, [](unsigned char letter) { return !std::isalnum(letter); }, '-');
    return name;
  }
  return {};
}

constexpr std::string_view own_prefix = "stagecraft-flight-";
/// Of runs that failed, so many stay, besides those that still run.
constexpr std::size_t failed_kept = 16;

/// Whether the run still writes there, or is about to.
bool is_in_use(const std::filesystem::path& folder) {
  using namespace std::chrono_literals;
  std::error_code error;
  const auto written = std::filesystem::last_write_time(folder, error);
  if (error || std::filesystem::file_time_type::clock::now() - written < 60s) return true;
  try {
    const Moment at = now();
    for (FlightSnapshot& record : read_flight_records(folder).ranks) {
      const Sight sight = see(std::move(record), at);
      if (sight.record.doing != Doing::ended && !sight.silent) return true;
    }
  } catch (const Error&) {
    return false;  // nothing that could be looked at
  }
  return false;
}

/// The oldest of those that failed runs of this user have left go.
void remove_old_ones(const std::filesystem::path& parent) {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> left;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status {};
    const std::filesystem::path& path = entry->path();
    if (!path.filename().string().starts_with(own_prefix)) continue;
    const bool is_own =
        lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid();
    std::error_code none;
    const auto written = std::filesystem::last_write_time(path, none);
    if (is_own && !none) left.emplace_back(written, path);
  }
  std::ranges::sort(left);
  for (std::size_t i = 0; i + failed_kept < left.size(); ++i) {
    std::error_code none;
    if (!is_in_use(left[i].second)) std::filesystem::remove_all(left[i].second, none);
  }
}

/// New, with the process's number: an ended process of that number may have left one of its own.
std::filesystem::path new_folder(const std::filesystem::path& folder, std::error_code& error) {
  const std::string name = concat(own_prefix, getpid());
  std::filesystem::path path = folder / name;
  for (int i = 2; !std::filesystem::create_directory(path, error) && !error; ++i) {
    path = folder / concat(name, "-", i);
  }
  return path;
}

}  // namespace

FlightFolder::FlightFolder(const std::string& asked) : path_(asked) {
  if (!path_.empty()) return;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (!error) remove_old_ones(folder);
  const std::string job = job_name();
  if (job.empty()) {
    if (!error) path_ = new_folder(folder, error);
  } else {
    path_ = folder / concat(own_prefix, job);
    if (!error) std::filesystem::create_directories(path_, error);
  }
  removes_ = !error;
  if (error) path_.clear();
}

FlightFolder::~FlightFolder() {
  std::error_code none;
  if (removes_) std::filesystem::remove_all(path_, none);
}

std::filesystem::path FlightFolder::path_to_remove() const {
  return removes_ ? path_ : std::filesystem::path();
}

Error FlightFolder::explained(const Error& error) {
  std::error_code none;
  if (path_.empty() || std::filesystem::is_empty(path_, none) || none) return error;
  keep();
  std::vector<std::string> help = error.help();
  help.push_back(concat("stagecraft diagnose ", path_.string(), " shows what each rank was doing"));
  return {error.kind(), error.message(), error.place(), std::move(help)};
}

}  // namespace stagecraft
