#include "tools/options/time_limit.hpp"

#include <CLI/CLI.hpp>

#include "profiles/error.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

void declare_time_limit(CLI::App& app, std::string& limit) {
  app.add_option("--time-limit", limit,
                 "Time limit; the command ends without a result if it takes longer")
      ->type_name("D");
}

TimeLimit::TimeLimit(Console& console, const std::string& limit) {
  if (limit.empty()) return;
  interrupt_.emplace(read_duration("--time-limit", limit));
  interrupt_->end_late([this, &console, limit] {
    if (interrupt_->interrupted()) return interrupt_->exit_code();
    return console.error(Error(ErrorKind::infeasible,
                               concat("no answer within --time-limit ", limit), {},
                               {"allow more time, or ask for fewer microbatches, stages or "
                                "combinations"}));
  });
}

}  // namespace stagecraft
