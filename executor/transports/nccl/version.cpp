#include "executor/transports/nccl/version.hpp"

#include "profiles/error.hpp"

namespace stagecraft::nccl {

namespace {

/// Before this one the abort of a communicator that does not block returned before it was gone.
constexpr int oldest = 22200;

int major_of(int version) {
  return version / 10000;
}

}  // namespace

std::string version_name(int version) {
  return concat(major_of(version), ".", version / 100 % 100, ".", version % 100);
}

std::string fault_of_versions(int header, int library) {
  const auto found = [&](const std::string& needed) {
    return concat("this was built with NCCL ", version_name(header), " and needs ", needed,
                  ", but the library that was found is NCCL ", version_name(library));
  };
  if (major_of(library) != major_of(header)) return found(concat(major_of(header), ".x"));
  if (library < oldest) return found(concat(version_name(oldest), " or newer"));
  return "";
}

std::string meaning_of(int result, const std::string& words, int library) {
  if (!words.empty() && words != "unknown result code") return words;
  return concat("result ", result, ", which NCCL ", version_name(library), " has no words for");
}

}  // namespace stagecraft::nccl
