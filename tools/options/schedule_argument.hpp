// SCHEDULE on the command line: a name of `schedule list`, or a file of torch's.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/views/torch_csv.hpp"
#include "tools/console.hpp"
#include "tools/options/shape_options.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Whether the word means a schedule's file: standard input (-), a name that ends in .csv, or a
/// file that looks like one.
bool is_schedule_file(const std::string& word);

/// Reads it, and notes it among the verb's inputs.
TorchSchedule read_schedule_file(Console& console, const std::string& path,
                                 const TorchReading& reading = {});
/// The same of a text that has been read from there already.
TorchSchedule read_schedule_text(Console& console, const std::string& text, const std::string& path,
                                 const TorchReading& reading = {});

/// What `schedule show --format` writes; the ones of torch may name a version.
inline constexpr std::array<std::string_view, 6> schedule_formats{"unicode",    "ascii", "torch",
                                                                  "torch-full", "svg",   "json"};

/// What the word means: the file's schedule, or that of the name with this shape.
TorchSchedule find_schedule(Console& console, const std::string& word, const ShapeOptions& shape,
                            int microbatches);

/// Its program; what repeats is left out of a long schedule by name (`Program::left_out`).
Program program_to_check(Console& console, const std::string& word, const ShapeOptions& options,
                         int microbatches);

/// Throws Error (usage) if a flag was given that gives a named schedule its shape, and all of these
/// words are files, which have their own.
void refuse_shape_of_files(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace stagecraft
