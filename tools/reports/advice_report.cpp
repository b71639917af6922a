#include "tools/reports/advice_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiles/text.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

/// Flags beside each other, as many as go in a line.
std::string flags_of(const AdvisedEdit& edit, bool unicode) {
  constexpr std::size_t widest = 96;
  if (is_in_own_words(edit.flags)) return "";  // the row's name says it
  std::string text, line;
  for (const FlagEdit& flag : edit.flags) {
    const std::string words = to_string(flag, unicode);
    if (!line.empty() && columns(line) + columns(words) + 2 > widest) {
      text += "     " + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + words;
  }
  return text + "     " + line + "\n";
}

ordered_json prediction_json(const Plan& plan, const Prediction& prediction) {
  ordered_json json{{"step_ns", prediction.step.count()},
                    {"samples_per_second", prediction.samples_per_second},
                    {"tokens_per_second", prediction.tokens_per_second},
                    {"peak_memory_bytes", device_peaks(plan, prediction)}};
  add_memory_limits(json, plan, prediction);
  json["fits"] = prediction.fits;
  return json;
}

ordered_json edit_json(const AdvisedEdit& edit) {
  ordered_json json{{"changes", ordered_json::array()}, {"flags", ordered_json::array()}};
  for (const Change& change : edit.changes)
    json["changes"].push_back(concat(change.key, "=", change.value));
  for (const FlagEdit& flag : edit.flags) json["flags"].push_back(to_string(flag, false));
  json.update(prediction_json(edit.plan, edit.prediction));
  json["faster_by"] = edit.faster_by;
  return json;
}

}  // namespace

std::string set_flags(const std::vector<Change>& changes) {
  std::string text;
  for (const Change& change : changes) text += concat(" --set ", change.key, "=", change.value);
  return text;
}

std::string advice_table(std::string_view heading, const std::vector<AdvisedEdit>& edits,
                         bool unicode) {
  if (edits.empty()) return "";
  Table table({std::string(heading), ">step", ">than now", ">highest peak"});
  for (const AdvisedEdit& edit : edits) {
    table.row({to_string(edit.changes), format_duration(edit.prediction.step),
               signed_percent(-edit.faster_by), highest_peak(edit.prediction)});
  }
  const std::vector<std::string> lines = split(table.text(unicode), '\n');
  std::string text = lines[0] + "\n" + lines[1] + "\n";
  for (std::size_t row = 0; row < edits.size(); ++row)
    text += lines[row + 2] + "\n" + flags_of(edits[row], unicode);
  return text;
}

ordered_json advice_json(const LoadedPlan& loaded, const Advice& advice) {
  ordered_json result{{"now", prediction_json(loaded.plan, advice.now)}};
  std::vector<AdvisedEdit> edits = advice.singles;
  edits.insert(edits.end(), advice.pairs.begin(), advice.pairs.end());
  std::ranges::stable_sort(edits, {}, [](const AdvisedEdit& edit) { return edit.prediction.step; });
  result["edits"] = ordered_json::array();
  for (const AdvisedEdit& edit : edits) result["edits"].push_back(edit_json(edit));
  if (advice.together) result["together"] = edit_json(*advice.together);
  if (advice.closest) result["closest"] = edit_json(*advice.closest);
  result["tried"] = advice.tried;
  return result;
}

}  // namespace stagecraft
