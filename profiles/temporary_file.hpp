// The file that write_file is writing under another name until it is whole.

#pragma once

namespace stagecraft {

/// Removes it, if one is being written: for a signal handler that ends the process, and safe there.
void remove_temporary_file() noexcept;

}  // namespace stagecraft
