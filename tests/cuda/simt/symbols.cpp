#include "tests/cuda/simt/symbols.hpp"

#include <cxxabi.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "profiles/error.hpp"

// Known by its address and by its name, so it says how far the program is moved in memory.
extern "C" void stagecraft_simt_anchor() {}

namespace stagecraft::simt {

namespace {

class Symbols {
 public:
  Symbols();
  const Kernel& kernel_at(const void* address);

 private:
  struct Object {
    std::uintptr_t address;
    std::size_t bytes;
  };

  void read_table(std::ifstream& file, const Elf64_Shdr& table, const Elf64_Shdr& names);

  std::mutex mutex_;
  std::uintptr_t moved_by_ = 0;
  std::vector<char> names_;
  std::unordered_map<std::uintptr_t, const char*> functions_;
  std::map<std::string_view, Object> locals_;  ///< static variables of functions
  std::unordered_map<const void*, Kernel> kernels_;
};

template <class T>
std::vector<T> read(std::ifstream& file, std::uint64_t at, std::size_t count) {
  std::vector<T> found(count);
  file.seekg(static_cast<std::streamoff>(at));
  file.read(reinterpret_cast<char*>(found.data()), static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) fail("the program's own file cannot be read");
  return found;
}

Symbols::Symbols() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const auto header = read<Elf64_Ehdr>(file, 0, 1)[0];
  const auto sections = read<Elf64_Shdr>(file, header.e_shoff, header.e_shnum);
  for (const Elf64_Shdr& each : sections) {
    if (each.sh_type == SHT_SYMTAB) read_table(file, each, sections[each.sh_link]);
  }
  if (functions_.empty()) {
    fail("the program has no table of symbols, which tests of kernels need; do not strip it");
  }
}

void Symbols::read_table(std::ifstream& file, const Elf64_Shdr& table, const Elf64_Shdr& names) {
  names_ = read<char>(file, names.sh_offset, names.sh_size);
  for (const auto& symbol :
       read<Elf64_Sym>(file, table.sh_offset, table.sh_size / sizeof(Elf64_Sym))) {
    const char* name = names_.data() + symbol.st_name;
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_FUNC && symbol.st_shndx != SHN_UNDEF) {
      functions_.emplace(symbol.st_value, name);
      if (std::strcmp(name, "stagecraft_simt_anchor") != 0) continue;
      moved_by_ = reinterpret_cast<std::uintptr_t>(&stagecraft_simt_anchor) - symbol.st_value;
    } else if (type == STT_OBJECT && std::strncmp(name, "_ZZ", 3) == 0) {
      locals_.emplace(name, Object{symbol.st_value, symbol.st_size});
    }
  }
}

const Kernel& Symbols::kernel_at(const void* address) {
  const std::lock_guard lock(mutex_);
  if (const auto known = kernels_.find(address); known != kernels_.end()) return known->second;
  const auto function = functions_.find(reinterpret_cast<std::uintptr_t>(address) - moved_by_);
  if (function == functions_.end()) fail("a kernel is launched that is none of this program");
  const std::string symbol = function->second;
  Kernel kernel{.name = kernel_name(symbol), .shared = {}};
  // Of _ZN…v they are _ZZN…vE and a name.
  const std::string of_kernel = "_ZZ" + symbol.substr(2) + "E";
  for (auto found = locals_.lower_bound(of_kernel);
       found != locals_.end() && found->first.starts_with(of_kernel); ++found) {
    const auto& [place, bytes] = found->second;
    kernel.shared.emplace_back(reinterpret_cast<std::byte*>(place + moved_by_), bytes);
  }
  return kernels_.emplace(address, std::move(kernel)).first->second;
}

void erase_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

}  // namespace

const Kernel& kernel_at(const void* address) {
  static Symbols symbols;
  return symbols.kernel_at(address);
}

std::string kernel_name(std::string_view symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr, &status), std::free);
  if (status != 0) return std::string(symbol);
  std::string name = plain.get();
  for (const auto* part : {"(anonymous namespace)::", "stagecraft::", "cuda::"}) {
    erase_all(name, part);
  }
  if (name.starts_with("void ")) name.erase(0, 5);
  return name.substr(0, name.find('('));
}

}  // namespace stagecraft::simt
