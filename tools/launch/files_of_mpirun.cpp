#include "tools/launch/files_of_mpirun.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "profiles/error.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

/// Those of a folder that have a name like this; none where it cannot be read.
std::vector<fs::path> entries(const fs::path& folder, const std::string& beginning,
                              const std::string& end = "") {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(beginning) && name.ends_with(end)) found.push_back(entry->path());
  }
  return found;
}

/// A session's jobs, as its files name them: "pmix_dstor_ds21_15757/smlockseg-695533569".
std::set<std::uint32_t> jobs_of(const fs::path& session) {
  constexpr std::string_view beginning = "smlockseg-";
  std::set<std::uint32_t> jobs;
  for (const fs::path& store : entries(session, "pmix_dstor_")) {
    for (const fs::path& lock : entries(store, std::string(beginning))) {
      const std::string number = lock.filename().string().substr(beginning.size());
      std::uint32_t job = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), job);
      if (error == std::errc() && end == number.data() + number.size()) jobs.insert(job);
    }
  }
  return jobs;
}

/// "/dev/shm/vader_segment.HOST.USER.29750001.0": the job in sixteens, and the rank.
void remove_shared_memory(std::uint32_t job) {
  const std::string middle = fmt::format(".{}.{:x}.", geteuid(), job);
  for (const fs::path& file : entries("/dev/shm", "vader_segment.")) {
    std::error_code none;
    if (file.filename().string().find(middle) != std::string::npos) fs::remove(file, none);
  }
}

void remove_session(const fs::path& session) {
  for (const std::uint32_t job : jobs_of(session)) remove_shared_memory(job);
  std::error_code none;
  fs::remove_all(session, none);
  fs::remove(session.parent_path(), none);  // if no other session is there
}

}  // namespace

void remove_files_of_mpirun(int pid) {
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) return;
  for (const fs::path& sessions : entries(temporary, "ompi.", concat(".", geteuid()))) {
    const fs::path session = sessions / concat("pid.", pid);
    if (fs::is_directory(session, error)) remove_session(session);
  }
}

}  // namespace stagecraft
