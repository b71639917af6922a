// Names of devices: finds the built-in kind of a product name, of a line of a tool's output, or of
// a device generation.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The built-in kind of a product, by its whole name: "h100" of "NVIDIA H100 80GB HBM3". Empty if
/// it is of none.
std::string device_kind_named(std::string_view product);
/// The kind named in a line with other words; parts of a device (MIG) have no kind.
std::string device_kind_in(std::string_view line);

/// Kinds of a compute capability in tenths (90 of 9.0) or of an instruction set ("gfx942"), the
/// most frequent one first; empty if none is built in.
std::vector<std::string> device_kinds_of_generation(std::string_view generation);
/// As the built-in kind of that name is written: "a100" for "A100-40GB" and for the product
/// "NVIDIA A100-SXM4-40GB"; any other name as it is.
std::string builtin_device_kind_called(std::string_view name);
/// The generation of a built-in kind; empty if it is not known.
std::string generation_of_device_kind(std::string_view kind);

}  // namespace stagecraft
