// Completion scripts of Stagecraft's command line, for several shells.

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

/// Numbers the choices in a script; equal choices have one number.
class NumberedChoices {
 public:
  /// The number of the choices; 0 if there are none.
  std::size_t number(const Choices& choices);
  /// All choices; number i is at index i - 1.
  const std::vector<Choices>& all() const { return all_; }

 private:
  std::vector<Choices> all_;
};

/// A word quoted so that bash, zsh and fish take it literally.
std::string in_single_quotes(std::string_view text);
/// A word quoted for fish, where only \ and ' can be escaped.
std::string in_fish_quotes(std::string_view text);

}  // namespace stagecraft
