#include "planner/interop/exporters/reasons.hpp"

namespace stagecraft {

void Reasons::require_none() const {
  if (sentences_.empty()) return;
  if (sentences_.size() == 1) fail(sentences_.front());
  std::string text = concat(system_, " cannot run this plan, for ", sentences_.size(), " reasons:");
  for (std::size_t i = 0; i < sentences_.size(); ++i) {
    text += concat(i == 0 ? " (" : "; (", i + 1, ") ", sentences_[i]);
  }
  fail(text);
}

}  // namespace stagecraft
