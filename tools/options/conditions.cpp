#include "tools/options/conditions.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/costs/device_memory.hpp"
#include "planner/costs/program_rows.hpp"
#include "planner/costs/shared_links.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/options/arguments.hpp"
#include "tools/reports/results.hpp"

namespace stagecraft {

namespace {

constexpr int most_buffers = 1'000'000;
constexpr double most_slower = 100'000;  // per cent

/// The program's device that the cluster's stands for.
int read_device(std::string_view flag, std::string_view text, const Site& site) {
  const int last = std::max(device_count(site.cluster), static_cast<int>(site.devices.size())) - 1;
  const int device = read_small_integers(flag, text, 0, last).front();
  for (std::size_t place = 0; place < site.devices.size(); ++place) {
    const bool is_it = site.rows.empty()
                           ? site.devices[place] == device
                           : std::ranges::find(site.rows[place], device) != site.rows[place].end();
    if (is_it) return static_cast<int>(place);
  }
  std::vector<int> used = site.devices;
  for (const std::vector<int>& row : site.rows) used.insert(used.end(), row.begin(), row.end());
  std::ranges::sort(used);
  used.erase(std::unique(used.begin(), used.end()), used.end());
  fail_usage(flag, ": the plan does not use device ", device, " of the cluster; it uses ",
             device_ranges(used));
}

/// "5%": of sends, receives and collectives each; "5%,5%,20%": of each of them.
std::array<int, lanes.size()> read_slow_down(const std::string& text) {
  std::vector<std::string> words = read_words("--slow-down", text);
  if (words.size() == 1) words.assign(3, words.front());
  if (words.size() != 3) {
    fail_usage("--slow-down: expected one percentage, or three (while sending, receiving, in a ",
               "collective), found ", words.size());
  }
  std::array<int, lanes.size()> thousandths{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    thousandths[i + 1] =
        static_cast<int>(std::lround(read_percent("--slow-down", words[i]) * 1000));
  }
  if (std::accumulate(thousandths.begin(), thousandths.end(), 0) >= 1000) {
    fail_usage("--slow-down: sending, receiving and a collective together take less than 100% of ",
               "compute; give at most 33% for all, or three percentages that make less than 100%");
  }
  return thousandths;
}

/// "2:20%": compute on device 2 takes 20 % longer.
std::vector<int> read_slow(const std::string& text, const Site& site) {
  std::vector<int> factors(site.devices.size(), 1'000'000);
  for (const std::string& word : read_words("--slow", text)) {
    const std::size_t colon = word.find(':');
    if (colon == std::string::npos) {
      fail_usage("--slow: expected DEVICE:PERCENT, as 2:20% for device 2 that computes 20 % ",
                 "longer, found \"", word, '"');
    }
    const int device = read_device("--slow", word.substr(0, colon), site);
    const double longer = read_percent("--slow", word.substr(colon + 1), most_slower);
    factors[static_cast<std::size_t>(device)] = static_cast<int>(std::lround((1 + longer) * 1e6));
  }
  return factors;
}

/// "2@100ms:50ms": device 2 stops for 50 ms; "2@100ms": for good.
std::vector<Stop> read_stops(const std::string& text, const Site& site) {
  std::vector<Stop> stops;
  for (const std::string& word : read_words("--stop", text)) {
    const std::size_t place = word.find('@');
    if (place == std::string::npos) {
      fail_usage("--stop: expected DEVICE@TIME[:DURATION] such as 2@100ms:50ms, found \"", word,
                 '"');
    }
    const std::size_t colon = word.find(':', place);
    Stop& stop = stops.emplace_back();
    stop.device = read_device("--stop", word.substr(0, place), site);
    stop.at = read_duration("--stop", word.substr(place + 1, colon - place - 1));
    if (colon != std::string::npos) stop.time = read_duration("--stop", word.substr(colon + 1));
  }
  return stops;
}

std::vector<Bytes> read_limits(const std::string& text, const Program& program, const Site& site) {
  if (program.buffers.empty()) {
    fail_usage("--memory-limit needs to know what takes memory; give --activations SIZE, ",
               "--message SIZE, or a PLAN");
  }
  if (text == "cluster") {
    if (site.memory_limits.empty()) fail_usage("--memory-limit cluster is for a PLAN; give a size");
    return site.memory_limits;
  }
  std::vector<Bytes> limits = read_byte_list("--memory-limit", text);
  if (limits.size() == 1) limits.assign(program.order.size(), limits.front());
  if (limits.size() == program.order.size()) return limits;
  fail_usage("--memory-limit: expected one size or ", program.devices, " (one per device), found ",
             limits.size());
}

Network read_network(const LinkSharing& sharing, const Program& program, const Costs& costs,
                     const Site& site) {
  Network network = shared_network(program, costs, site.devices, site.cluster, sharing);
  if (network.links.empty() && !program.channels.empty()) {
    fail_usage("--sharing: no message takes a link any time; give --message SIZE and --bandwidth ",
               "RATE, or a PLAN on a cluster with links");
  }
  return network;
}

bool are_usual(const ConditionOptions& options) {
  return options.policy == "async" && options.protocol.empty() && options.sharing.sharing.empty() &&
         options.slow_down.empty() && options.slow.empty() && options.stop.empty() &&
         options.memory_limit.empty();
}

void declare_speed(CLI::App& app, ConditionOptions& options) {
  app.add_option("--slow-down", options.slow_down,
                 "Slowdown of compute while its device communicates: 10%, or separately while it "
                 "sends, receives, and takes part in a collective: 5%,5%,20%")
      ->type_name("PERCENT");
  app.add_option(
         "--slow", options.slow,
         "Slow devices: with 2:20% compute on device 2 takes 20 % longer; devices of a plan "
         "are the cluster's")
      ->type_name("DEVICE:PERCENT,...");
  app.add_option("--stop", options.stop,
                 "Stopped devices: 2@100ms:50ms stops device 2 for 50 ms, 2@100ms for good")
      ->type_name("DEVICE@D[:D],...");
}

}  // namespace

void declare_conditions(CLI::App& app, ConditionOptions& options) {
  app.add_option("--link-policy", options.policy,
                 "Policy of waiting for messages: async, blocking-pair, prefetch, in-order, "
                 "commit-and-wait or lock-step (async)")
      ->type_name("POLICY")
      ->check(CLI::IsMember(
          {"async", "blocking-pair", "prefetch", "in-order", "commit-and-wait", "lock-step"}));
  app.add_option("--protocol", options.protocol,
                 "Protocol of a send: eager needs nothing of the receiver, rendezvous a posted "
                 "receive, credit one of --buffers (the policy's usual one)")
      ->type_name("P")
      ->check(CLI::IsMember({"eager", "rendezvous", "credit"}));
  app.add_option("--buffers", options.buffers,
                 "With prefetch or credit: messages that a channel can buffer at its receiver (1)")
      ->type_name("N")
      ->check(CLI::Range(1, most_buffers));
  declare_sharing(app, options.sharing,
                  "Sharing of a link by concurrent messages: fair (each gets a part) or fifo (one "
                  "after the other); without this option, each message has the link to itself");
  declare_speed(app, options);
  app.add_option("--memory-limit", options.memory_limit,
                 "Memory limit at which forwards wait: one size, one per device, or cluster, for "
                 "the limits of the plan's cluster")
      ->type_name("SIZE");
}

Site site_of(const LoadedPlan& loaded, const Compiled& compiled) {
  return {.cluster = loaded.cluster,
          .devices = compiled.devices,
          .memory_limits = compiled.memory_limits,
          .rows = row_names(loaded.plan, compiled)};
}

std::optional<Environment> environment_of(const ConditionOptions& options, const Program& program,
                                          const Costs& costs, const Site& site) {
  const std::optional<LinkSharing> sharing = read_link_sharing(options.sharing);
  if (are_usual(options)) return {};
  Environment environment{.policy = read_link_policy(options.policy),
                          .buffers = options.buffers,
                          .device_names = site.devices};
  if (!options.protocol.empty()) environment.protocol = read_protocol(options.protocol);
  if (sharing) environment.network = read_network(*sharing, program, costs, site);
  if (!options.slow_down.empty()) environment.slow_down = read_slow_down(options.slow_down);
  if (!options.slow.empty()) environment.factors.device = read_slow(options.slow, site);
  if (!options.stop.empty()) environment.stops = read_stops(options.stop, site);
  if (!options.memory_limit.empty())
    environment.memory_limits = read_limits(options.memory_limit, program, site);
  return environment;
}

namespace {

/// Whether there is a memory limit, and without it all would go on.
bool lacks_memory(Environment environment, const Program& program, const Costs& costs,
                  const SimulateOptions& options) {
  if (environment.memory_limits.empty()) return false;
  environment.memory_limits.clear();
  try {
    run_events(program, costs, environment, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

EventRun run_under(const std::optional<Environment>& environment, const Program& program,
                   const Costs& costs, const SimulateOptions& options) {
  if (!environment) return {.timeline = simulate(program, costs, options)};
  try {
    return run_events(program, costs, *environment, options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::check || !lacks_memory(*environment, program, costs, options))
      throw;
    Bytes most = *std::max_element(program.arena.begin(), program.arena.end());
    if (!program.reserve.empty()) most += std::ranges::max(program.reserve);
    throw Error(ErrorKind::infeasible, concat(error.message(), "; with --memory-limit ",
                                              rounded_up(most), " no forward waits"));
  }
}

namespace {

/// A long chain of waits by its ends.
std::string shortened(const std::string& story) {
  constexpr std::string_view link = ", which ";
  constexpr std::size_t first = 4, last = 3;
  std::vector<std::size_t> links;
  for (std::size_t at = story.find(link); at != std::string::npos; at = story.find(link, at + 1))
    links.push_back(at);
  if (links.size() <= first + last + 1) return story;
  return concat(story.substr(0, links[first]), ", … (", links.size() - first - last, " more) …",
                story.substr(links[links.size() - last]));
}

}  // namespace

std::string remarks_on(const EventRun& run, const std::vector<int>& device_names) {
  std::string text;
  for (std::size_t device = 0; device < run.waiting_for_memory.size(); ++device) {
    const Duration time = run.waiting_for_memory[device];
    if (time == Duration{0}) continue;
    const int name = device_names.empty() ? static_cast<int>(device) : device_names[device];
    text += fmt::format("device {} waits for memory for {}\n", name, format_duration(time));
  }
  for (const std::string& story : run.stranded) text += "never done: " + shortened(story) + "\n";
  return text;
}

}  // namespace stagecraft
