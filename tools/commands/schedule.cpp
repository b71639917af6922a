// stagecraft schedule list | show NAME: what schedules there are, and the order one gives to each
// device.

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "profiles/text.hpp"
#include "simulator/draw.hpp"
#include "simulator/schedules.hpp"
#include "tools/commands.hpp"
#include "tools/shape_options.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct ScheduleArguments {
  std::string what = "list";
  std::string name;
  ShapeOptions shape;
  int microbatches = 8;
};

int list(Console& console) {
  ordered_json rows = ordered_json::array();
  Table table({"name", "also", "stages", "constraints", "what"});
  for (const ScheduleKind& kind : schedule_kinds) {
    const std::vector<std::string> aliases = split(kind.aliases, ' ');
    rows.push_back({{"name", kind.name},
                    {"aliases", aliases},
                    {"constraints", kind.constraints},
                    {"splits_backward", kind.splits_backward},
                    {"placement", to_string(kind.placement)},
                    {"synchronous", kind.synchronous},
                    {"weight_versions", kind.weight_versions}});
    table.row({std::string(kind.name), fmt::format("{}", fmt::join(aliases, ", ")),
               std::string(to_string(kind.placement)), std::string(kind.constraints),
               std::string(kind.summary)});
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
          {"peak_in_flight", peak_in_flight(schedule)},
          {"devices", std::move(devices)}};
}

int show(Console& console, const ScheduleArguments& arguments) {
  if (arguments.name.empty())
    fail_usage("schedule show needs a NAME; see stagecraft schedule list");
  const ScheduleKind& kind = find_schedule(arguments.name);
  const Schedule schedule =
      kind.generate(shape_from(arguments.shape, kind, arguments.microbatches));
  validate(schedule);
  console.print(draw(schedule, console.drawing()));
  console.result(schedule_json(schedule));
  return 0;
}

}  // namespace

Action declare_schedule(CLI::App& app) {
  auto arguments = std::make_shared<ScheduleArguments>();
  app.add_option("what", arguments->what, "list or show")
      ->type_name("list|show")
      ->check(CLI::IsMember({"list", "show"}));
  app.add_option("name", arguments->name, "A name or alias")->type_name("NAME");
  declare_shape(app, arguments->shape);
  app.add_option("--microbatches", arguments->microbatches, "Per iteration (8)")
      ->type_name("M")
      ->check(CLI::Range(1, 10'000'000));
  return [arguments](Console& console) {
    return arguments->what == "list" ? list(console) : show(console, *arguments);
  };
}

}  // namespace stagecraft
