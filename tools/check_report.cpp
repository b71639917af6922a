#include "tools/check_report.hpp"

#include <nlohmann/json.hpp>

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

ordered_json finding_json(const Finding& finding) {
  return {{"rule", finding.rule},     {"message", finding.message},
          {"device", finding.device}, {"instruction", to_string(finding.instruction)},
          {"cycle", finding.cycle},   {"fix", finding.fix}};
}

std::string report_text(const CheckReport& report, bool unicode) {
  std::string text;
  for (const std::string& proved : report.proved)
    text += concat(unicode ? " ✔ " : " ok ", proved, "\n");
  for (const Finding& finding : report.findings) {
    text += concat(unicode ? " ✗ " : " NO ", finding.rule, ": ", finding.message, "\n");
    for (const std::string& wait : finding.cycle) text += "     " + wait + "\n";
    if (!finding.fix.empty()) text += concat("     fix: ", finding.fix, "\n");
  }
  return text;
}

}  // namespace

int show_report(Console& console, const CheckReport& report) {
  ordered_json findings = ordered_json::array();
  for (const Finding& finding : report.findings) findings.push_back(finding_json(finding));
  const ordered_json result{
      {"safe", report.safe()}, {"proved", report.proved}, {"findings", std::move(findings)}};
  console.print(report_text(report, console.unicode()));
  if (report.safe()) {
    console.result(result);
    return 0;
  }
  return console.error(
      Error(ErrorKind::check, concat("not safe: ", report.findings.front().message)), &result);
}

}  // namespace stagecraft
