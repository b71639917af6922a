// Parts of the program that need libraries which not every machine has (MPI; CUDA, NCCL, cuDNN):
// each is a shared library of its own, libstagecraft_NAME.so beside the program, loaded when a run
// asks for it. So one build serves machines with and without them, and starts quickly on both.

#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// The address of a module's entry point, a function with C linkage, which stays valid for the rest
/// of the process. Throws Error (execution) in one sentence that begins with `asked_for`
/// ("--transport mpi"): the module is not there, or a library it needs is missing
/// on this machine.
void* module_entry(std::string_view module, const std::string& entry, std::string_view asked_for);

}  // namespace stagecraft
