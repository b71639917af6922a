// What `check` says of a program, as tests ask for it.

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "simulator/checks/check.hpp"

namespace stagecraft::tests {

/// Each once, as they first come.
inline std::vector<std::string> rules(const CheckReport& report) {
  std::vector<std::string> names;
  for (const Finding& finding : report.findings) {
    if (std::find(names.begin(), names.end(), finding.rule) == names.end())
      names.push_back(finding.rule);
  }
  return names;
}

inline bool found(const CheckReport& report, const std::string& rule) {
  const auto names = rules(report);
  return std::find(names.begin(), names.end(), rule) != names.end();
}

/// A finding of this rule that says these words.
inline bool found(const CheckReport& report, const std::string& rule, const std::string& words) {
  return std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& finding) {
    return finding.rule == rule && finding.message.find(words) != std::string::npos;
  });
}

inline std::string first_message(const CheckReport& report, const std::string& rule) {
  for (const Finding& finding : report.findings) {
    if (finding.rule == rule) return finding.message;
  }
  return "nothing found by " + rule;
}

inline bool proves(const CheckReport& report, const std::string& sentence) {
  return std::find(report.proved.begin(), report.proved.end(), sentence) != report.proved.end();
}

/// "RULE: SENTENCE", or "safe".
inline std::string first_finding(const Program& program) {
  const CheckReport report = check(program);
  return report.safe() ? "safe" : report.findings[0].rule + ": " + report.findings[0].message;
}

/// One finding per line.
inline std::string all_messages(const CheckReport& report) {
  std::string text;
  for (const Finding& finding : report.findings)
    text += finding.rule + ": " + finding.message + "\n";
  return text;
}

}  // namespace stagecraft::tests
