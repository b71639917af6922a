// stagecraft schedule list | show SCHEDULE | check SCHEDULE: what schedules there are, the order
// one gives to each device in several formats, and whether it is safe.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/engines/repeats.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"
#include "simulator/views/draw.hpp"
#include "simulator/views/draw_svg.hpp"
#include "simulator/views/torch_csv.hpp"
#include "tools/commands.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/schedule_argument.hpp"
#include "tools/options/shape_options.hpp"
#include "tools/options/time_limit.hpp"
#include "tools/reports/check_report.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ScheduleArguments {
  std::string what = "list";
  std::string name;
  std::string format;
  ShapeOptions shape;
  int microbatches = 8;
  std::string time_limit;
};

/// A number, or how it depends on the device.
ordered_json versions_json(const ScheduleKind& kind) {
  const std::string words = weight_versions_in_words(kind);
  if (words == std::to_string(kind.weight_versions)) return kind.weight_versions;
  return words;
}

int list_schedules(Console& console) {
  ordered_json rows = ordered_json::array();
  Table table({"name", "also", "stages", "versions", "constraints", "what"});
  for (const ScheduleKind& kind : schedule_kinds) {
    const std::vector<std::string> aliases = split(kind.aliases, ' ');
    rows.push_back({{"name", kind.name},
                    {"aliases", aliases},
                    {"constraints", kind.constraints},
                    {"splits_backward", kind.splits_backward},
                    {"placement", to_string(kind.placement)},
                    {"synchronous", kind.synchronous},
                    {"weights", to_string(kind.weights)},
                    {"weight_versions", versions_json(kind)}});
    table.row({std::string(kind.name), fmt::format("{}", fmt::join(aliases, ", ")),
               std::string(to_string(kind.placement)), weight_versions_in_words(kind),
               std::string(kind.constraints), std::string(kind.summary)});
  }
  console.print(table.text(console.unicode()));
  console.result({{"schedules", std::move(rows)}});
  return 0;
}

ordered_json schedule_json(const Schedule& schedule) {
  ordered_json devices = ordered_json::array();
  for (const auto& order : schedule.devices) {
    ordered_json line = ordered_json::array();
    for (const Instruction& instruction : order) line.push_back(to_string(instruction));
    devices.push_back(std::move(line));
  }
  return {{"name", schedule.name},
          {"stages", schedule.stages},
          {"microbatches", schedule.microbatches},
          {"device_of_stage", schedule.device_of_stage},
          {"pipes", schedule.pipes},
          {"sequence_chunks", schedule.sequence_chunks},
          {"trains", schedule.trains},
          {"peak_in_flight", peak_in_flight(schedule)},
          {"devices", std::move(devices)},
          {"fused", schedule.fused}};
}

/// The timeline of F = 1, B = 2, I = W = R = 1 for each stage, in milliseconds.
std::string unit_drawing(const Program& program) {
  constexpr Duration unit = std::chrono::milliseconds(1);
  const Costs costs = uniform(program, {.forward = unit,
                                        .backward = 2 * unit,
                                        .backward_input = unit,
                                        .backward_weight = unit,
                                        .recompute = unit});
  return draw_svg(simulate(program, costs), {.unit = unit});
}

/// What of torch the words are for: "torch-full@2.11".
struct Format {
  std::string name;
  TorchVersion version = TorchVersion::torch_2_15;
};

Format read_format(const std::string& text) {
  const std::size_t at = text.find('@');
  Format format{.name = text.substr(0, at)};
  if (std::ranges::find(schedule_formats, format.name) == schedule_formats.end()) {
    fail_unknown("format", format.name, {schedule_formats.begin(), schedule_formats.end()});
  }
  if (at == std::string::npos) return format;
  if (!format.name.starts_with("torch")) {
    fail_usage("--format ", format.name, " has no versions; torch and torch-full have");
  }
  format.version = read_torch_version(text.substr(at + 1));
  return format;
}

std::string formatted(Console& console, const std::string& word, const TorchSchedule& given) {
  const auto [format, version] = read_format(word);
  const Schedule& schedule = given.schedule;
  DrawOptions drawing = console.drawing();
  if (format == "json") return to_text(schedule_json(schedule));
  if (format == "svg") return unit_drawing(lower(given));
  if (format == "unicode" || format == "ascii") {
    drawing.unicode = format == "unicode";
    return draw(schedule, drawing);
  }
  if (const std::string caveat = torch_caveat(schedule); !caveat.empty()) console.note(caveat);
  return write_torch_csv(
      given, format == "torch" ? TorchForm::compute_only : TorchForm::compute_comms, version);
}

TorchSchedule given_schedule(Console& console, const ScheduleArguments& arguments) {
  if (arguments.name.empty()) {
    fail_usage("schedule ", arguments.what,
               " needs a SCHEDULE, a name or a file; see stagecraft schedule list");
  }
  return find_schedule(console, arguments.name, arguments.shape, arguments.microbatches);
}

/// Nobody reads more, nor waits for it.
void require_readable(std::int64_t instructions) {
  constexpr std::int64_t most_shown = 400'000;
  if (instructions <= most_shown) return;
  fail_usage("a schedule of ", instructions, " instructions is more than the ", most_shown,
             " that are shown; ask for fewer stages or microbatches: check NAME proves longer ones "
             "safe");
}

/// Before it is made, which may take long.
void require_readable_shape(const ScheduleArguments& arguments) {
  if (arguments.name.empty() || is_schedule_file(arguments.name)) return;
  const ScheduleKind& kind = find_schedule(arguments.name);
  require_readable(passes_of(shape_from(arguments.shape, kind, arguments.microbatches)));
}

std::int64_t instructions_of(const Schedule& schedule) {
  std::int64_t instructions = 0;
  for (const auto& order : schedule.devices) instructions += std::ssize(order);
  return instructions;
}

int show(Console& console, const ScheduleArguments& arguments) {
  require_readable_shape(arguments);
  const TorchSchedule given = given_schedule(console, arguments);
  require_readable(instructions_of(given.schedule));
  require_safe(lower(given));
  std::string format = arguments.format;
  if (format.empty()) format = console.unicode() ? "unicode" : "ascii";
  const std::string text = formatted(console, format, given);
  if (!console.artefact(text)) console.print(text);
  console.result(schedule_json(given.schedule));
  return 0;
}

int check_file(Console& console, const ScheduleArguments& arguments) {
  if (!arguments.name.empty() && !is_schedule_file(arguments.name)) {
    return show_report(console, check(program_to_check(console, arguments.name, arguments.shape,
                                                       arguments.microbatches)));
  }
  const TorchSchedule given = given_schedule(console, arguments);
  if (given.form == TorchForm::compute_comms && !given.waits) {
    console.note(
        "the file has no WAIT_SEND_F, WAIT_SEND_B and WAIT_REDUCE_GRAD: torch 2.11 reads it, 2.15 "
        "refuses it; schedule show FILE --format torch-full adds them");
  }
  return show_report(console, check(lower(given)));
}

}  // namespace

Action declare_schedule(CLI::App& app) {
  auto arguments = std::make_shared<ScheduleArguments>();
  app.add_option("what", arguments->what, "list, show or check")
      ->type_name("list|show|check")
      ->check(CLI::IsMember({"list", "show", "check"}));
  app.add_option("name", arguments->name, "Name or alias of a schedule, or a torch CSV")
      ->type_name("SCHEDULE");
  app.add_option("--format", arguments->format,
                 "With show: output format: unicode, ascii, torch (compute only), torch-full (with "
                 "communication, as torch 2.15 reads it; torch-full@2.11 as before), svg (unit "
                 "costs) or json")
      ->type_name("F");
  declare_shape(app, arguments->shape);
  app.add_option("--microbatches", arguments->microbatches, "Microbatches per iteration (8)")
      ->type_name("M")
      ->check(CLI::Range(1, 10'000'000));
  declare_time_limit(app, arguments->time_limit);
  return [arguments, &app](Console& console) {
    const TimeLimit limit(console, arguments->time_limit);
    if (arguments->what == "list") refuse_beside_list(app);
    if (arguments->what == "list") return list_schedules(console);
    refuse_shape_of_files(app, {arguments->name});
    if (arguments->what == "check") refuse_given(app, {"--format"}, "goes with schedule show");
    if (arguments->what == "show") return show(console, *arguments);
    return check_file(console, *arguments);
  };
}

}  // namespace stagecraft
