// Flags that only apply together with others, or to one kind of input: a flag without effect is
// refused, with the flag to use instead.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace stagecraft {

/// The heading in --help of flags that describe a schedule by its name.
inline constexpr const char* of_schedules = "With --schedule NAME";

/// A flag of schedules and its replacement for plans: "--bandwidth" is "--set link0=RATE".
struct Replacement {
  std::string_view flag;
  std::string_view instead;
};

/// Throws Error (usage) if a flag of `of_schedules` was given for a plan or a file, which has that
/// property itself, naming its replacement.
void refuse_flags_of_schedules(const CLI::App& app, const std::string& input);

/// Throws Error (usage) if one of the flags was given; `reason` tells with what it can be used.
void refuse_given(const CLI::App& app, const std::vector<const char*>& flags,
                  const std::string& reason);

/// Throws Error (usage) if other arguments or flags were given beside "list".
void refuse_beside_list(const CLI::App& app);

/// The flags that give a schedule its shape, and its microbatches.
inline const std::vector<const char*> shape_flags{
    "--stages", "--virtual", "--group",           "--in-flight",   "--decode-steps",
    "--warmup", "--pipes",   "--sequence-chunks", "--microbatches"};

/// Throws Error (usage) for --buffers if no message is buffered.
void refuse_idle_buffers(const CLI::App& app, const std::string& policy,
                         const std::string& protocol);

/// Whether the flag was given.
bool is_given(const CLI::App& app, const char* flag);

}  // namespace stagecraft
