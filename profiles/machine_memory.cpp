#include "profiles/machine_memory.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr Bytes no_limit = std::numeric_limits<Bytes>::max();

Bytes available_on_machine() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    Bytes kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return no_limit;
}

std::optional<Bytes> number_in(const std::string& path) {
  std::ifstream file(path);
  Bytes number = 0;
  return file >> number ? std::optional(number) : std::nullopt;  // "max" is none
}

/// What cgroup v2 leaves, in the process's own group and those above it.
Bytes left_in_control_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  if (!std::getline(file, line) || !line.starts_with("0::")) return no_limit;
  Bytes left = no_limit;
  for (std::string group = line.substr(3);; group.resize(group.rfind('/'))) {
    const std::string folder = "/sys/fs/cgroup" + group + "/";
    const auto most = number_in(folder + "memory.max");
    const auto used = number_in(folder + "memory.current");
    if (most && used) left = std::min(left, std::max<Bytes>(0, *most - *used));
    if (group.find('/') == std::string::npos || group == "/") return left;
  }
}

Bytes left_of(__rlimit_resource which, Bytes used) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return no_limit;
  return std::max<Bytes>(0, static_cast<Bytes>(limit.rlim_cur) - used);
}

Bytes limit_of_environment() {
  const char* text = std::getenv("STAGECRAFT_MEMORY");
  return text == nullptr || *text == '\0' ? no_limit : parse_bytes(text);
}

}  // namespace

/// Address space and data of this process (proc(5): statm).
Bytes left_address_space() {
  std::ifstream file("/proc/self/statm");
  Bytes all = 0, resident = 0, shared = 0, code = 0, libraries = 0, data = 0;
  file >> all >> resident >> shared >> code >> libraries >> data;
  const Bytes page = sysconf(_SC_PAGESIZE);
  return std::min(left_of(RLIMIT_AS, all * page), left_of(RLIMIT_DATA, data * page));
}

Bytes usable_memory() {
  return std::min({available_on_machine(), left_in_control_groups(), left_address_space(),
                   limit_of_environment()});
}

void require_memory(Bytes needed, const std::string& what, const std::string& remedy) {
  const Bytes usable = usable_memory();
  if (needed <= usable) return;
  throw Error(ErrorKind::infeasible,
              concat(what, " needs about ", format_bytes(needed), " of memory, and ",
                     format_bytes(usable), " are left for it here; ", remedy));
}

}  // namespace stagecraft
