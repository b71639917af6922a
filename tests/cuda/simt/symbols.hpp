// What the program's own table of symbols says about kernels: how each is called, and where its
// shared memory is.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::simt {

struct Kernel {
  std::string name;  ///< kernel_name(symbol)
  std::vector<std::span<std::byte>> shared;
};

/// Throws Error if the program has no function there, or has lost its symbols. Stays valid.
const Kernel& kernel_at(const void* address);

/// How a kernel is called here: without its namespaces, parameters and result, whichever compiler
/// has made the symbol: "each_element<Add<float> >".
std::string kernel_name(std::string_view symbol);

}  // namespace stagecraft::simt
