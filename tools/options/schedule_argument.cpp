#include "tools/options/schedule_argument.hpp"

#include <algorithm>
#include <filesystem>

#include "profiles/json.hpp"
#include "profiles/missing_file.hpp"
#include "simulator/engines/repeats.hpp"
#include "tools/options/applicable.hpp"

namespace stagecraft {

bool is_schedule_file(const std::string& word) {
  if (word == "-" || word.ends_with(".csv")) return true;
  // Only of regular files can be read twice.
  std::error_code ignored;
  return std::filesystem::is_regular_file(word, ignored) && looks_like_torch_csv(read_file(word));
}

TorchSchedule read_schedule_file(Console& console, const std::string& path,
                                 const TorchReading& reading) {
  require_file(path, {"`stagecraft schedule show NAME --format torch -o FILE` writes a schedule"});
  return read_schedule_text(console, read_file(path), path, reading);
}

TorchSchedule read_schedule_text(Console& console, const std::string& text, const std::string& path,
                                 const TorchReading& reading) {
  console.input(path, content_hash(text));
  return read_torch_csv(text, path == "-" ? "standard input" : path, reading);
}

TorchSchedule find_schedule(Console& console, const std::string& word, const ShapeOptions& shape,
                            int microbatches) {
  if (is_schedule_file(word)) {
    return read_schedule_file(
        console, word,
        {.pipes = shape.pipes.value_or(1), .sequence_chunks = shape.sequence_chunks});
  }
  const ScheduleKind& kind = find_schedule(word);
  return {.schedule = kind.generate(shape_from(shape, kind, microbatches)), .order = {}};
}

Program program_to_check(Console& console, const std::string& word, const ShapeOptions& options,
                         int microbatches) {
  if (is_schedule_file(word)) return lower(find_schedule(console, word, options, microbatches));
  const ScheduleKind& kind = find_schedule(word);
  const ScheduleShape shape = shape_from(options, kind, microbatches);
  const bool is_long = passes_of(shape) > most_in_full;
  const auto shorter = is_long ? shortened(kind, shape, most_in_full / 4) : std::nullopt;
  if (is_long && !shorter) require_in_reach(kind, shape, passes_of(shape), most_in_full / 4);
  Program program = lower(kind.generate(shorter ? shorter->shape : shape));
  if (shorter) program.left_out = shorter->left_out;
  return program;
}

void refuse_shape_of_files(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || !std::ranges::all_of(words, is_schedule_file)) return;
  for (const char* flag : shape_flags) {
    // How a file is read.
    if (flag == std::string_view("--pipes") || flag == std::string_view("--sequence-chunks"))
      continue;
    refuse_given(app, {flag},
                 concat("describes a schedule by its name; ", words.front(), " has its own order"));
  }
}

}  // namespace stagecraft
