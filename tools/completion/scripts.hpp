// Programs for shells that complete Stagecraft's command line.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tools/completion/choices.hpp"

namespace stagecraft {

/// Bash 4.1 and later; needs no bash-completion.
std::string bash_completion(const std::vector<VerbWords>& verbs);
/// Zsh 5: a function `_stagecraft` for `fpath`, or to be sourced after compinit.
std::string zsh_completion(const std::vector<VerbWords>& verbs);
/// Fish 3.
std::string fish_completion(const std::vector<VerbWords>& verbs);

struct Shell {
  std::string_view name;
  std::string (*completion)(const std::vector<VerbWords>& verbs);
};
inline constexpr std::array shells{Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion},
                                   Shell{"fish", fish_completion}};

/// The same choices have one number in a script, wherever they stand.
class NumberedChoices {
 public:
  /// 0 for what nothing completes.
  std::size_t number(const Choices& choices);
  /// Number i is at i - 1.
  const std::vector<Choices>& all() const { return all_; }

 private:
  std::vector<Choices> all_;
};

/// A word as bash, zsh and fish take it literally.
std::string in_single_quotes(std::string_view text);
/// The same for fish, where only \ and ' escape.
std::string in_fish_quotes(std::string_view text);

}  // namespace stagecraft
