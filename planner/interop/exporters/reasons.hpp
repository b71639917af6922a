// What stands in the way of a plan in another system: all of it, so that nobody mends one thing to
// hear of the next.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

/// Collects a sentence for each. Who writes a file goes on after adding one, with whatever stands
/// for the answer, and calls `require_none` before anything is given away.
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
