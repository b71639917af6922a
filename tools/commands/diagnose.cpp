// stagecraft diagnose DIR: what the ranks of a run were doing when it hung, was killed, or ended.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "executor/flight/diagnosis.hpp"
#include "tools/commands.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

struct DiagnoseArguments {
  std::string folder;
};

Duration since(const Sight& sight) {
  return std::max(Duration{0}, sight.at - sight.record.since);
}

/// The last few instructions, the newest last.
std::string recent_words(const FlightSnapshot& record, std::size_t most) {
  std::string words;
  const std::size_t count = record.recent.size();
  for (std::size_t i = count > most ? count - most : 0; i < count; ++i) {
    words += (words.empty() ? "" : " ") + to_string(record.recent[i].instruction);
  }
  return words;
}

std::string state_of(const Sight& sight, std::span<const Sight> all) {
  if (sight.record.cause != Cause::none) return "failed";
  return (sight.silent ? "silent: " : "") + describe_doing(sight, all);
}

std::string table_of(std::span<const Sight> sights, bool unicode) {
  Table table({"rank", ">step", "what it does", ">for", "last instructions"});
  for (const Sight& sight : sights) {
    const FlightSnapshot& record = sight.record;
    const bool ended = record.doing == Doing::ended;
    table.row({record.name, record.step ? std::to_string(*record.step + 1) : "",
               state_of(sight, sights), ended ? "" : format_duration(since(sight)),
               recent_words(record, 5)});
  }
  return table.text(unicode);
}

ordered_json recent_json(const Sight& sight) {
  ordered_json all = ordered_json::array();
  for (const RecentInstruction& recent : sight.record.recent) {
    all.push_back({{"instruction", to_string(recent.instruction)},
                   {"step", recent.step + 1},
                   {"ago_ns", (sight.at - recent.begun).count()}});
  }
  return all;
}

ordered_json rank_json(const Sight& sight, std::span<const Sight> all) {
  const FlightSnapshot& record = sight.record;
  ordered_json json{{"rank", record.rank},           {"name", record.name},
                    {"host", record.host},           {"pid", record.pid},
                    {"plan", record.plan_hash},      {"doing", to_string(record.doing)},
                    {"words", state_of(sight, all)}, {"since_ns", since(sight).count()},
                    {"silent", sight.silent},        {"waits_for", waits_for(sight, all)}};
  if (record.step) json["step"] = *record.step + 1;
  if (record.instruction) json["instruction"] = to_string(*record.instruction);
  if (!record.failure.empty()) json["failure"] = record.failure;
  json["recent"] = recent_json(sight);
  return json;
}

int diagnose_folder(Console& console, const DiagnoseArguments& arguments) {
  FlightRecords records = read_flight_records(arguments.folder);
  const Moment at = now();
  std::vector<Sight> sights;
  for (FlightSnapshot& record : records.ranks) sights.push_back(see(std::move(record), at));
  for (const std::string& problem : records.problems) console.warn(problem);
  Diagnosis diagnosis = diagnose(sights);
  if (diagnosis.verdict == Verdict::ended && !records.problems.empty()) {
    diagnosis.verdict = Verdict::unknown;
    diagnosis.sentence =
        concat("the ranks whose records can be read have ended as planned (", sights.size(), " of ",
               sights.front().record.ranks, "); what became of the others cannot be told");
  }
  console.print(table_of(sights, console.unicode()));
  console.print("\n" + diagnosis.sentence + "\n");
  ordered_json ranks = ordered_json::array();
  for (const Sight& sight : sights) ranks.push_back(rank_json(sight, sights));
  ordered_json result{{"verdict", to_string(diagnosis.verdict)},
                      {"sentence", diagnosis.sentence},
                      {"cycle", diagnosis.cycle},
                      {"ranks", std::move(ranks)},
                      {"problems", records.problems}};
  if (diagnosis.rank) result["rank"] = *diagnosis.rank;
  console.result(result);
  return 0;
}

}  // namespace

Action declare_diagnose(CLI::App& app) {
  auto arguments = std::make_shared<DiagnoseArguments>();
  app.add_option("folder", arguments->folder,
                 "Folder with the flight records of a run that ended or still runs")
      ->type_name("DIR")
      ->required();
  return [arguments](Console& console) { return diagnose_folder(console, *arguments); };
}

}  // namespace stagecraft
