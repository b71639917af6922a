#include "simulator/checks/check.hpp"

#include <cassert>

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft {

// Each rule speaks only where it can be trusted: a program whose tables do not fit together has no
// meaning, one whose messages do not match would get stuck for that reason, and one that gets stuck
// has no order to judge.
CheckReport check(const Program& program, const CheckOptions& options) {
  CheckReport report;
  checks::structure(program).add_to(report);
  if (!report.safe()) return report;
  if (!options.memory_limits.empty() && options.memory_limits.size() != program.order.size()) {
    fail("check: ", options.memory_limits.size(), " memory limits for ", program.order.size(),
         " devices");
  }
  if (!options.device_names.empty() && options.device_names.size() != program.order.size()) {
    fail("check: ", options.device_names.size(), " names for ", program.order.size(), " devices");
  }
  if (options.messages_in_flight < 0)
    fail("check: expected 0 or more messages in flight, not ", options.messages_in_flight);
  const checks::Facts facts(program, options.device_names);
  checks::conservation(facts).add_to(report);
  const checks::Verdict matching = checks::matching(facts);
  matching.add_to(report);
  if (matching.holds()) checks::deadlock(facts, options.messages_in_flight).add_to(report);
  const checks::HappensBefore before(facts);
  // Whatever passes with few messages in flight passes with any number; so this is skipped only
  // below an earlier finding.
  assert(before.complete() || !report.safe());
  if (before.complete()) {
    checks::order(facts, before).add_to(report);
    checks::race(facts, before).add_to(report);
    checks::sharding(facts, before).add_to(report);
    checks::norm(facts, before).add_to(report);
  }
  checks::version(facts).add_to(report);
  checks::memory(facts, options.memory_limits, options.timed).add_to(report);
  if (program.left_out && report.safe()) {
    report.proved.push_back(concat(program.left_out->microbatches,
                                   " microbatches more repeat the order, ", program.left_out->unit,
                                   " at a time; all else is proved of the ", program.microbatches,
                                   " others"));
  }
  for (Finding& finding : report.findings) finding.device = facts.name_of(finding.device);
  return report;
}

void require_safe(const Program& program, const CheckOptions& options) {
  const CheckReport report = check(program, options);
  if (report.safe()) return;
  const Finding& first = report.findings.front();
  const std::string fix = first.fix.empty() ? "" : "; " + first.fix;
  throw Error(ErrorKind::check, concat(first.rule, ": ", first.message, fix));
}

}  // namespace stagecraft
