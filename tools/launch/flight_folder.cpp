#include "tools/launch/flight_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

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

/// New, with the process's number: an ended process of that number may have left one of its own.
std::filesystem::path new_folder(const std::filesystem::path& folder, std::error_code& error) {
  const std::string name = concat("stagecraft-flight-", getpid());
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
  const std::string job = job_name();
  if (job.empty()) {
    if (!error) path_ = new_folder(folder, error);
  } else {
    path_ = folder / concat("stagecraft-flight-", job);
    if (!error) std::filesystem::create_directories(path_, error);
  }
  removes_ = !error;
  if (error) path_.clear();
}

FlightFolder::~FlightFolder() {
  std::error_code none;
  if (removes_) std::filesystem::remove_all(path_, none);
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
