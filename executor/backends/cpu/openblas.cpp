#include "executor/backends/cpu/openblas.hpp"

#include <dlfcn.h>

#include <array>

#include "profiles/error.hpp"

namespace stagecraft::cpu {

namespace {

// By the name of its ABI, and where it was found when this program was built.
constexpr std::array openblas_files{"libopenblas.so.0", STAGECRAFT_OPENBLAS};

[[noreturn]] void fail_to_load(const std::string& reason) {
  throw Error(ErrorKind::execution,
              concat("training on CPUs needs OpenBLAS, which cannot be loaded: ", reason,
                     "; install it (sudo apt-get install libopenblas0-pthread)"));
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fail_to_load(dlerror());
}

OpenBlas load_openblas() {
  void* library = nullptr;
  std::string reason;
  for (const char* file : openblas_files) {
    if (library == nullptr) library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr && reason.empty()) reason = dlerror();
  }
  if (library == nullptr) fail_to_load(reason);
  OpenBlas found;
  find(library, "cblas_sgemm", found.sgemm);
  find(library, "cblas_dgemm", found.dgemm);
  find(library, "openblas_set_num_threads", found.set_num_threads);
  find(library, "openblas_get_config", found.get_config);
  find(library, "openblas_get_corename", found.get_corename);
  return found;
}

}  // namespace

const OpenBlas& openblas() {
  static const OpenBlas loaded = load_openblas();
  return loaded;
}

}  // namespace stagecraft::cpu
