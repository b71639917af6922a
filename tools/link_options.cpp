#include "tools/link_options.hpp"

#include <CLI/CLI.hpp>

namespace stagecraft {

namespace {

constexpr int most_buffers = 1'000'000;

}  // namespace

void declare_links(CLI::App& app, LinkOptions& options) {
  app.add_option("--link-policy", options.policy,
                 "How devices wait for messages: async, blocking-pair, prefetch, in-order, "
                 "commit-and-wait, lock-step")
      ->type_name("POLICY")
      ->check(CLI::IsMember(
          {"async", "blocking-pair", "prefetch", "in-order", "commit-and-wait", "lock-step"}));
  app.add_option("--buffers", options.buffers,
                 "prefetch: messages each channel has room for at its receiver (1)")
      ->type_name("N")
      ->check(CLI::Range(1, most_buffers));
}

bool needs_events(const LinkOptions& options) {
  return read_link_policy(options.policy) != LinkPolicy::async;
}

Timeline simulate_with(const LinkOptions& links, const Program& program, const Costs& costs,
                       const SimulateOptions& options) {
  if (!needs_events(links)) return simulate(program, costs, options);
  const Environment environment{.policy = read_link_policy(links.policy), .buffers = links.buffers};
  return simulate_events(program, costs, environment, options);
}

}  // namespace stagecraft
