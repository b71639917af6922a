// Versions of NCCL: that of the header the module was compiled with, and of the library it found.
//
// Either may be the newer one. NCCL's configuration says how long it is and from which header; a
// library reads no more of it than it knows, and takes its own defaults for the rest. Whatever is
// not set here is "undefined" in both, so only what the library does with calls is left to ask.

#pragma once

#include <string>

namespace stagecraft::nccl {

/// As NCCL counts: 22809 is "2.28.9".
std::string version_name(int version);

/// Why a module compiled with one cannot work with the other; empty if it can.
std::string fault_of_versions(int header, int library);

/// What NCCL says of a result. Libraries know no words for the results of later ones: then it is
/// the number.
std::string meaning_of(int result, const std::string& words, int library);

}  // namespace stagecraft::nccl
