#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

constexpr std::size_t most_findings = 10;

}  // namespace

void Verdict::found(Finding finding) {
  finding.rule = rule_;
  if (++found_ <= most_findings) findings_.push_back(std::move(finding));
}

void Verdict::found(std::string message, int device, const Instruction& instruction) {
  found({.rule = rule_,
         .message = std::move(message),
         .device = device,
         .instruction = instruction,
         .cycle = {},
         .fix = {}});
}

void Verdict::found(std::string message, const Facts& facts, int work) {
  found(std::move(message), facts.device_of(work),
        facts.program.work[static_cast<std::size_t>(work)].instruction);
}

void Verdict::add_to(CheckReport& report) const {
  report.findings.insert(report.findings.end(), findings_.begin(), findings_.end());
  if (holds()) report.proved.insert(report.proved.end(), proved_.begin(), proved_.end());
  if (found_ > most_findings) {
    report.findings.back().message += concat(" (and ", found_ - most_findings, " more like this)");
  }
}

}  // namespace stagecraft::checks
