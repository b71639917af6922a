#include "executor/driver/modules.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Beside the program, above it (where its tests find it), or where it is installed.
std::filesystem::path find_module(std::string_view module) {
  const std::string file = concat("libstagecraft_", module, ".so");
  const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  for (const auto& candidate : {folder / file, folder.parent_path() / file,
                                folder.parent_path() / "lib/stagecraft" / file}) {
    if (std::filesystem::exists(candidate)) return candidate;
  }
  return {};
}

}  // namespace

void* module_entry(std::string_view module, const std::string& entry, std::string_view asked_for) {
  const std::filesystem::path path = find_module(module);
  if (path.empty()) {
    throw Error(
        ErrorKind::execution,
        concat(asked_for, ": libstagecraft_", module,
               ".so is not beside this program; in its sources, tools/build release stagecraft_",
               module, " makes it, where `stagecraft doctor` lists what it needs"));
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = library == nullptr ? nullptr : dlsym(library, entry.c_str());
  if (function == nullptr) {
    throw Error(ErrorKind::execution,
                concat(asked_for, ": cannot load ", path.filename().string(), ": ", dlerror()));
  }
  return function;
}

}  // namespace stagecraft
