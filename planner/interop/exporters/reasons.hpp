// The reasons against a plan in another system, collected completely, so that the user sees all of
// them at once.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

/// Collects one sentence per reason. A writer continues after adding a reason, with a placeholder,
/// and calls `require_none` before it returns the file.
class Reasons {
 public:
  explicit Reasons(std::string_view system) : system_(system) {}

  /// A sentence that begins with the system's name.
  template <class... Parts>
  void add(const Parts&... parts) {
    sentences_.push_back(concat(system_, parts...));
  }
  std::string_view system() const { return system_; }
  const std::vector<std::string>& sentences() const { return sentences_; }

  /// Throws Error (input) with the sentence, or with a numbered list of them.
  void require_none() const;

 private:
  std::string_view system_;
  std::vector<std::string> sentences_;
};

}  // namespace stagecraft
