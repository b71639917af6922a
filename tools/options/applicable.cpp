#include "tools/options/applicable.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array replacements{
    Replacement{"--schedule", "--set schedule=NAME"},
    Replacement{"--stages", "--set pp=P"},
    Replacement{"--virtual", "--set vpp=V"},
    Replacement{"--microbatches", "--set batch=N or --set mbs=N"},
    Replacement{"--bandwidth", "--set link0=RATE"},
    Replacement{"--transfer", "--set link0.latency=D"},
    Replacement{"--recompute", "--set recompute=R"},
    Replacement{"--message", "--set mbs=N"},
    Replacement{"--activations", "--set mbs=N or --set recompute=R"},
};

}  // namespace

void refuse_flags_of_schedules(const CLI::App& app, const std::string& input) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() != of_schedules || option->count() == 0) continue;
    const std::string flag = "--" + option->get_lnames().front();
    const auto other = std::ranges::find(replacements, flag, &Replacement::flag);
    if (other != replacements.end()) {
      fail_usage(flag, " describes a schedule by its name; ", input,
                 " has its own: ", other->instead, " changes it");
    }
    fail_usage(flag, " describes a schedule by its name (--schedule NAME); ", input,
               " has its own, which `stagecraft plan` chooses");
  }
}

void refuse_given(const CLI::App& app, const std::vector<const char*>& flags,
                  const std::string& reason) {
  for (const char* flag : flags) {
    if (is_given(app, flag)) fail_usage(flag, " ", reason);
  }
}

void refuse_beside_list(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_group() == "Common" || option->get_name() == "what")
      continue;
    const bool has_flag = !option->get_lnames().empty();
    fail_usage(has_flag ? "--" + option->get_lnames().front() : option->get_type_name(),
               " goes with `stagecraft ", app.get_name(), " show`; list takes nothing");
  }
}

void refuse_idle_buffers(const CLI::App& app, const std::string& policy,
                         const std::string& protocol) {
  if (policy == "prefetch" || protocol == "credit") return;
  refuse_given(app, {"--buffers"}, "goes with --link-policy prefetch or --protocol credit");
}

bool is_given(const CLI::App& app, const char* flag) {
  return app.get_option(flag)->count() > 0;
}

}  // namespace stagecraft
