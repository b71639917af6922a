// Modules: parts of the program that need optional libraries (MPI; CUDA, NCCL, cuDNN). Each is a
// shared library, libstagecraft_NAME.so beside the program, loaded when a run needs it. So one
// build serves machines with and without these libraries, and starts quickly on both.

#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// The address of a module's entry point, a function with C linkage, which stays valid for the rest
/// of the process. Throws Error (execution), in a sentence that begins with `asked_for`
/// ("--transport mpi"), if the module or a library that it needs is missing.
void* module_entry(std::string_view module, const std::string& entry, std::string_view asked_for);

}  // namespace stagecraft
