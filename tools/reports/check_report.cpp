#include "tools/reports/check_report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "profiles/text.hpp"
#include "profiles/units.hpp"
#include "simulator/views/alike_rows.hpp"
#include "tools/table.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

ordered_json finding_json(const Finding& finding) {
  return {{"rule", finding.rule},     {"message", finding.message},
          {"device", finding.device}, {"instruction", to_string(finding.instruction)},
          {"cycle", finding.cycle},   {"fix", finding.fix}};
}

/// Findings about devices of which the same is said have one row.
struct FindingRow {
  const Finding* first = nullptr;
  std::string said;         ///< of its device; empty: of something else
  std::vector<int> others;  ///< devices of which the same is said
  std::string remark;       ///< behind what is said of the last one
};

/// Behind "device 3 needs": what it needs; empty where the sentence is of something else.
std::string needs_of(const Finding& finding) {
  const std::string subject = concat("device ", finding.device, " needs ");
  const bool is_plain = finding.cycle.empty() && finding.fix.empty();
  return is_plain && finding.message.starts_with(subject) ? finding.message.substr(subject.size())
                                                          : "";
}

std::vector<FindingRow> finding_rows(const std::vector<Finding>& findings) {
  std::vector<FindingRow> rows;
  for (const Finding& finding : findings) {
    const std::string said = needs_of(finding);
    const auto alike = std::ranges::find_if(rows, [&](const FindingRow& row) {
      return !row.said.empty() && row.first->rule == finding.rule && said.starts_with(row.said);
    });
    if (alike == rows.end()) {
      rows.push_back({.first = &finding, .said = said, .others = {}, .remark = {}});
    } else {
      alike->others.push_back(finding.device);
      alike->remark = said.substr(alike->said.size());
    }
  }
  return rows;
}

std::string report_text(const CheckReport& report, bool unicode) {
  std::string text;
  for (const std::string& proved : report.proved)
    text += concat(unicode ? " ✔ " : " ok ", proved, "\n");
  for (const FindingRow& row : finding_rows(report.findings)) {
    const Finding& finding = *row.first;
    text += concat(unicode ? " ✗ " : " NO ", finding.rule, ": ", finding.message, "\n");
    if (!row.others.empty())
      text += concat("     and so do ", device_words(row.others), row.remark, "\n");
    for (const std::string& wait : finding.cycle) text += "     " + wait + "\n";
    if (!finding.fix.empty()) text += concat("     fix: ", finding.fix, "\n");
  }
  return text;
}

/// "no plan of 8 settings takes less than 1.2s (3 by work, 5 by listing): optimal"
std::string bound_text(const Verification& bound) {
  const double gap =
      bound.step.count() == 0 ? 0 : seconds(bound.step - bound.bound) / seconds(bound.step);
  std::string how;
  const auto add = [&](int settings, std::string_view by) {
    if (settings > 0) how += concat(how.empty() ? "" : ", ", settings, " by ", by);
  };
  add(bound.by_work, "work");
  add(bound.by_listing, "listing");
  add(bound.by_search, "searching again");
  return concat(
      "no plan of ", bound.settings, bound.settings == 1 ? " setting" : " settings",
      " takes less than ", format_duration(bound.bound), " (", how, "): ",
      gap == 0 ? std::string("this one is optimal") : concat("this one is within ", percent(gap)),
      bound.scope.empty() ? "" : " among ", bound.scope);
}

ordered_json certificate_json(const Verification& bound) {
  ordered_json json{{"valid", bound.holds()},           {"lower_bound", seconds(bound.bound)},
                    {"objective", seconds(bound.step)}, {"settings", bound.settings},
                    {"by_work", bound.by_work},         {"by_listing", bound.by_listing},
                    {"by_search", bound.by_search}};
  if (!bound.scope.empty()) json["scope"] = bound.scope;
  return json;
}

}  // namespace

namespace {

std::string framework_text(const FrameworkVerdict& verdict, bool unicode) {
  const std::string name = to_words(*verdict.target);
  if (verdict.reasons.empty()) return concat(unicode ? " ✔ " : " ok ", "runs in ", name, "\n");
  std::string text;
  for (const std::string& reason : verdict.reasons)
    text += concat(unicode ? " ✗ " : " NO ", reason, "\n");
  return text;
}

/// Why the plan is not what was asked of it; empty if it is.
std::string fault_of(const CheckReport& report, const std::optional<Verification>& bound,
                     const std::optional<FrameworkVerdict>& framework) {
  if (!report.safe()) return concat("not safe: ", report.findings.front().message);
  if (bound && !bound->holds()) return bound->fault;
  if (!framework || framework->reasons.empty()) return {};
  const std::size_t count = framework->reasons.size();
  return concat("does not run in ", to_words(*framework->target), ": ",
                count == 1 ? framework->reasons.front() : concat(count, " reasons, above"));
}

}  // namespace

int show_report(Console& console, const CheckReport& report,
                const std::optional<Verification>& bound,
                const std::optional<FrameworkVerdict>& framework) {
  ordered_json findings = ordered_json::array();
  for (const Finding& finding : report.findings) findings.push_back(finding_json(finding));
  ordered_json result{
      {"safe", report.safe()}, {"proved", report.proved}, {"findings", std::move(findings)}};
  if (bound) result["certificate"] = certificate_json(*bound);
  if (framework) {
    result["runs"] = framework->reasons.empty();
    result["reasons"] = framework->reasons;
  }
  console.print(report_text(report, console.unicode()));
  if (bound && bound->holds()) {
    console.print(concat(console.unicode() ? " ✔ " : " ok ", bound_text(*bound), "\n"));
  }
  if (framework) console.print(framework_text(*framework, console.unicode()));
  const std::string fault = fault_of(report, bound, framework);
  if (!fault.empty()) return console.error(Error(ErrorKind::check, fault), &result);
  console.result(result);
  return 0;
}

}  // namespace stagecraft
