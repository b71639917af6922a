#include "tools/options/oversight_options.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "tools/launch/supervisor.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

void declare_oversight(CLI::App& app, OversightFlags& flags) {
  app.add_option("--flight-records", flags.flight_records,
                 "Folder for the ranks' flight records, which `diagnose` reads (a temporary "
                 "folder, kept when the run fails)")
      ->type_name("DIR");
  app.add_option("--deadline", flags.deadline,
                 "Time limit of an instruction; the run ends if one exceeds it and 20 times its "
                 "predicted time (30s)")
      ->type_name("TIME");
  app.add_option("--check-finite", flags.check_finite,
                 "End the run at the first NaN or infinity: on or off (on)")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("WHEN");
  app.add_option(
         "--restarts", flags.restarts,
         "Maximum number of restarts, from the last checkpoint, when the run is killed or stalls")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--supervised", flags.supervised)->group("");
  app.add_option("--attempt", flags.attempt)->group("");
}

namespace {

/// Nobody may be left behind: a rank that computes for ever ends with its process.
std::function<void(const std::string&)> leave_at_once(Console& console,
                                                      const OversightFlags& flags) {
  return [&console, &flags](const std::string& reason) {
    const Error error(ErrorKind::execution, reason);
    if (flags.supervised.empty()) {
      console.error(error);
    } else {
      tell_supervisor(flags.supervised, error);
    }
    std::fflush(nullptr);
    _exit(exit_code(error.kind()));
  };
}

Duration deadline_of(const OversightFlags& flags) {
  if (flags.deadline.empty()) return Oversight{}.deadline;
  const Duration deadline = read_duration("--deadline", flags.deadline);
  if (deadline <= Duration{0}) fail_usage("--deadline: expected more than 0s");
  return deadline;
}

}  // namespace

Oversight oversight_of(Console& console, const OversightFlags& flags, const FlightFolder& folder,
                       const std::string& plan_hash, Duration predicted_step) {
  Oversight oversight{.flight_records = folder.path(),
                      .plan_hash = plan_hash,
                      .predicted_step = predicted_step,
                      .check_finite = flags.check_finite == "on",
                      .on_stuck = leave_at_once(console, flags)};
  oversight.deadline = deadline_of(flags);
  return oversight;
}

int run_under_oversight(Console& console, const OversightFlags& flags,
                        const std::string& checkpoints, Interrupt* interrupt,
                        const std::function<int(const FlightFolder&)>& body) {
  const bool is_supervised = !flags.supervised.empty();
  FlightFolder folder(is_supervised ? flags.supervised : flags.flight_records);
  if (interrupt != nullptr) {
    interrupt->before_end([path = folder.path_to_remove()] {
      std::error_code none;
      if (!path.empty()) std::filesystem::remove_all(path, none);
    });
  }
  try {
    if (flags.restarts && !is_supervised) {
      if (folder.path().empty()) {
        fail_usage("--restarts: there is no temporary folder; name one with --flight-records DIR");
      }
      if (interrupt == nullptr) throw Error(ErrorKind::bug, "a rank cannot be a supervisor");
      interrupt->end_in_order();  // of the run
      return supervise(console, *interrupt,
                       {.restarts = *flags.restarts,
                        .folder = folder.path(),
                        .checkpoints = checkpoints,
                        .longest_start = 20 * deadline_of(flags)});
    }
    const int code = body(folder);
    // Of failures there is a sentence, by a rank or below.
    const bool has_result = code != exit_code(ErrorKind::execution);
    if (is_supervised && interrupt != nullptr && has_result) tell_finished(flags.supervised, code);
    return code;
  } catch (const Error& error) {
    // What cannot be written, such as a trace on a full disk, is no rank's doing, and would fail
    // again however often the run is.
    const bool is_of_file = error.place().has_value();
    if (error.kind() != ErrorKind::execution || is_of_file) throw;
    if (!is_supervised) throw folder.explained(error);
    if (interrupt != nullptr) {
      tell_supervisor_as_launcher(flags.supervised, error);
    } else {
      tell_supervisor(flags.supervised, error);
      throw ToldToSupervisor(error);
    }
    return exit_code(error.kind());
  }
}

}  // namespace stagecraft
