// What the system refuses, in our words.

#pragma once

#include <filesystem>
#include <system_error>

#include "profiles/error.hpp"

namespace stagecraft {

/// Of a file it is said which: its name may lead nowhere, as a symbolic link to itself does, or
/// where nobody may look. Of all else (threads, memory) the system has no more.
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
