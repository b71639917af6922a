// Converts errors of the operating system to `Error`.

#pragma once

#include <filesystem>
#include <system_error>

#include "profiles/error.hpp"

namespace stagecraft {

/// The error for a refusal by the system. For files it names the file, whose path may be a symbolic
/// link to itself or not accessible; for anything else (threads, memory) it says that the system
/// has no more.
inline Error system_refusal(const std::system_error& error) {
  const auto* of_file = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  if (of_file == nullptr) {
    return {ErrorKind::execution,
            concat("the system refuses: ", error.what(),
                   "; are memory, threads or processes limited (ulimit -a)?")};
  }
  const auto is = [&](std::errc code) { return error.code() == code; };
  const bool is_of_name = is(std::errc::too_many_symbolic_link_levels) ||
                          is(std::errc::filename_too_long) || is(std::errc::not_a_directory) ||
                          is(std::errc::no_such_file_or_directory) ||
                          is(std::errc::permission_denied);
  return {is_of_name ? ErrorKind::input : ErrorKind::execution,
          concat(of_file->path1().string(), ": cannot be used: ", error.code().message())};
}

}  // namespace stagecraft
