// Flags that mean something only beside others, or only to one kind of input: a flag that would
// change nothing is refused with the one that does.

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

/// What a plan's own flag is called: "--bandwidth" is "--set link0=RATE".
struct Replacement {
  std::string_view flag;
  std::string_view instead;
};

/// Throws Error (usage) if a flag below `of_schedules` was given to a plan or a file, which says so
/// itself, naming what changes it there.
void refuse_flags_of_schedules(const CLI::App& app, const std::string& input);

/// Throws Error (usage) if one of the flags was given; `reason` says with what it goes.
void refuse_given(const CLI::App& app, const std::vector<const char*>& flags,
                  const std::string& reason);

/// Throws Error (usage) if anything but "list" was said to a verb that lists or shows.
void refuse_beside_list(const CLI::App& app);

/// The flags that give a schedule its shape, and its microbatches.
inline const std::vector<const char*> shape_flags{
    "--stages", "--virtual", "--group",           "--in-flight",   "--decode-steps",
    "--warmup", "--pipes",   "--sequence-chunks", "--microbatches"};

/// Throws Error (usage) for --buffers where no message is buffered.
void refuse_idle_buffers(const CLI::App& app, const std::string& policy,
                         const std::string& protocol);

/// Whether it was given.
bool is_given(const CLI::App& app, const char* flag);

}  // namespace stagecraft
