// stagecraft plan MODEL CLUSTER: the best plan found, what it rests on, and what the usual choices
// would cost.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <vector>

#include "planner/analysis/answers.hpp"
#include "planner/analysis/frameworks.hpp"
#include "planner/analysis/shared.hpp"
#include "planner/problem/defaults.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/launch/interrupt.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/degree_choices.hpp"
#include "tools/options/planning_problem.hpp"
#include "tools/options/risk_options.hpp"
#include "tools/options/sharing_options.hpp"
#include "tools/reports/plan_report.hpp"
#include "tools/reports/progress.hpp"
#include "tools/reports/serving_report.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

struct PlanArguments {
  PlanningOptions planning;
  std::string time_limit, gap, strategy = "exact", pareto;
  RiskOptions risk;
  SharingOptions sharing;
  int top = 1;
  std::string compare_frameworks = "auto";
};

/// A front of more plans is of no use to people.
constexpr int most_on_front = 64;
/// Parts of the memory by which plans on a front differ: every search takes its time.
constexpr double spacing_on_front = 1.0 / 16;

/// Whether a front is asked for, whose two sides have no order.
bool wants_front(const PlanArguments& arguments, const Problem& problem) {
  if (arguments.pareto.empty()) return false;
  if (arguments.pareto != "memory,throughput" && arguments.pareto != "throughput,memory")
    fail_usage("--pareto: expected memory,throughput, found \"", arguments.pareto, "\"");
  if (problem.objective != ObjectiveKind::step && problem.objective != ObjectiveKind::throughput) {
    fail_usage("--pareto goes with --objective step or throughput, not ",
               arguments.planning.objective);
  }
  if (arguments.top > 1) fail_usage("--pareto shows all of the front; leave out --top");
  return true;
}

/// The quantile that plans are chosen by, if any.
std::optional<Risk> risk_of(const PlanArguments& arguments) {
  const std::optional<Risk> risk = read_risk(arguments.risk);
  if (risk && (arguments.strategy != "exact" || !arguments.pareto.empty()))
    fail_usage("--risk goes with --strategy exact, and without --pareto");
  return risk;
}

/// Who shares links, if plans are chosen by that.
std::optional<LinkSharing> sharing_of(const PlanArguments& arguments) {
  const std::optional<LinkSharing> sharing = read_link_sharing(arguments.sharing);
  if (sharing && (!arguments.pareto.empty() || !arguments.risk.level.empty()))
    fail_usage("--sharing goes without --pareto and --risk");
  return sharing;
}

/// On few devices proofs take no time; on more the last percent takes most of it, the sooner where
/// layers may be shared in many ways, whose costs are estimates that err by more.
double gap_for(const PlanArguments& arguments, const Problem& problem) {
  const int few_devices = may_share_layers(problem) ? 4 : 16;
  constexpr double usual_gap = 0.01;
  if (!arguments.gap.empty()) return read_percent("--gap", arguments.gap);
  const int devices = problem.devices.value_or(device_count(problem.cluster));
  return devices > few_devices ? usual_gap : 0;
}

SearchResult search_for(Console& console, const PlanArguments& arguments, const Problem& problem,
                        const std::optional<Risk>& risk, const Interrupt& interrupt) {
  Progress progress(console, "searching");
  SearchControl control{.stop = interrupt.token(),
                        .top = arguments.top,
                        .threads = console.options().threads,
                        .gap = gap_for(arguments, problem)};
  control.progress = [&](const SearchProgress& state) {
    progress.update(
        state.done,
        state.best ? fmt::format("best {} gap {}", format_duration(*state.best), percent(state.gap))
                   : "");
  };
  const StrategyChoice choice = choose_strategy(arguments.strategy);
  control.argument = choice.argument;
  require_obeyed(*choice.strategy, problem);
  const auto search = choice.strategy->search;
  if (risk) return search_at_risk(search, problem, control, *risk);
  if (const auto sharing = sharing_of(arguments))
    return search_with_shared_links(search, problem, control, *sharing);
  if (!wants_front(arguments, problem)) return search_for_objective(search, problem, control);
  const auto front = choice.strategy->front;
  return front != nullptr ? front(problem, control, most_on_front, spacing_on_front)
                          : pareto_front(search, problem, control, most_on_front, spacing_on_front);
}

/// Whether one plan is asked for, by what it is predicted to take.
bool asks_for_one(const PlanArguments& arguments) {
  return arguments.strategy == "exact" && arguments.pareto.empty() &&
         arguments.risk.level.empty() && arguments.sharing.sharing.empty();
}

/// What frameworks would take is told of the step alone, as our own search finds it.
bool compares_frameworks(const Console& console, const PlanArguments& arguments,
                         const Problem& problem) {
  const bool is_asked = arguments.compare_frameworks == "auto"
                            ? !console.json() && !console.options().quiet
                            : arguments.compare_frameworks == "on";
  const bool has_sense = problem.target == nullptr && asks_for_one(arguments) &&
                         problem.objective != ObjectiveKind::cost;
  if (arguments.compare_frameworks == "on" && !has_sense) {
    fail_usage("--compare-frameworks on goes with --strategy exact, and without --for, --pareto, ",
               "--risk, --sharing and --objective cost");
  }
  return is_asked && has_sense;
}

/// What `export` has to say of a single plan, which the framework's row does not know.
void require_exported(const Problem& problem, const Plan& plan) {
  if (problem.target == nullptr) return;
  const std::vector<std::string> reasons =
      reasons_against(*problem.target, as_loaded(problem, plan));
  if (reasons.empty()) return;
  throw Error(ErrorKind::infeasible, concat("--for ", problem.target->name,
                                            ": the best plan that was found is none that it runs: ",
                                            fmt::format("{}", fmt::join(reasons, "; "))));
}

/// Degrees of parallelism are mostly powers of two, so that 64 devices of each rack of 72 may do
/// more than all: a short search says so, to people.
void tell_narrower_boxes(Console& console, const PlanArguments& arguments,
                         const LoadedProfile& loaded, const Candidate& best,
                         const std::stop_token& stop) {
  const bool is_step = asks_for_one(arguments) && arguments.planning.objective == "step" &&
                       arguments.planning.exclude.empty() && arguments.time_limit.empty();
  if (!is_step || console.json() || console.options().quiet || stop.stop_requested()) return;
  PlanningOptions narrower = arguments.planning;
  const auto cluster = with_narrower_boxes(narrower.devices.cluster);
  if (!cluster || !best.prediction || serves(best.plan)) return;
  narrower.devices.cluster = *cluster;
  narrower.devices.devices = 0;
  try {
    const SearchControl control{.stop = stop,
                                .threads = console.options().threads,
                                .effort = SearchControl::of_a_look,
                                .explain = false};
    const Problem problem = with_known_costs(planning_problem(console, narrower, loaded));
    const SearchResult search = search_exact(problem, control);
    if (search.plans.empty() || !search.plans.front().prediction) return;
    const Duration step = search.plans.front().prediction->step;
    if (step >= best.prediction->step) return;
    const double less = 1 - seconds(step) / seconds(best.prediction->step);
    console.note(fmt::format(
        "degrees of parallelism are mostly powers of two: CLUSTER {}, {} of these devices, has a "
        "plan of {}, {} less; plan it in place of {}",
        *cluster, device_count(problem.cluster), format_duration(step), percent(less),
        arguments.planning.devices.cluster));
  } catch (const Error&) {
    return;  // the question makes no sense of so few
  }
}

/// Plans that do nothing again selectively name no modules of it.
void forget_unused_modules(Console& console, SearchResult& search) {
  const LayerModules said = search.plans.front().plan.kernels.again;
  if (!said.empty() && !recomputes_selectively(search.plans.front().plan)) {
    console.note(fmt::format(
        "the plan recomputes nothing selectively, so there are no modules {} to do again",
        to_string(said)));
  }
  for (Candidate& candidate : search.plans)
    candidate.plan.kernels.again = modules_again(candidate.plan);
}

int make_plan(Console& console, const PlanArguments& arguments) {
  const LoadedProfile loaded = load_profile(arguments.planning.model);
  console.input(loaded.path, loaded.hash);
  for (const std::string& warning : loaded.profile.warnings) console.note(warning);
  Problem problem = with_known_costs(planning_problem(console, arguments.planning, loaded));
  for (const std::string& note : notes_on(arguments.planning, problem)) console.note(note);
  // Other planners know no such degrees, whole optimizer states, and schedules only that every
  // framework has.
  const bool searches_degrees =
      (choose_strategy(arguments.strategy).strategy->obeys & wish::parallelism) != 0;
  if (!searches_degrees) {
    problem.other_parallelism.clear();
    problem.other_sharding.clear();
  }
  if (!searches_degrees && arguments.planning.sharding == "auto") {
    problem.optimizer.sharding = Sharding::none;
  }
  if (!searches_degrees && arguments.planning.schedule == "auto") {
    problem.schedules = plain_choices(std::move(problem.schedules));
  }
  std::optional<Duration> limit;
  if (!arguments.time_limit.empty()) limit = read_duration("--time-limit", arguments.time_limit);
  const std::optional<Risk> risk = risk_of(arguments);
  const bool with_frameworks = compares_frameworks(console, arguments, problem);
  Interrupt interrupt(limit);
  const auto tell_nothing_found = [&] {
    const int code = console.error(
        Error(ErrorKind::infeasible,
              interrupt.interrupted()
                  ? "interrupted before a first plan was found"
                  : "stopped before a first plan was found; allow a longer --time-limit"));
    return interrupt.interrupted() ? interrupt.exit_code() : code;
  };
  // Other planners have no plan before they have their last one, and few of them look up meanwhile.
  const Strategy* strategy = choose_strategy(arguments.strategy).strategy;
  const bool is_own = std::ranges::any_of(
      own_strategies, [&](const Strategy& own) { return own.name == strategy->name; });
  if (!is_own) interrupt.end_late(tell_nothing_found);
  console.warn_if_unseen("the plan");
  SearchResult search = search_for(console, arguments, problem, risk, interrupt);
  interrupt.end_late({});
  if (search.infeasible) return report_infeasible(console, *search.infeasible);
  if (search.plans.empty()) return tell_nothing_found();
  const Candidate& best = search.plans.front();
  if (best.plan.stages.empty()) {
    return report_infeasible(
        console, {.reason = fmt::format("{} has no plan: {}", search.strategy, best.rejected),
                  .short_by = 0,
                  .remedies = {}});
  }
  require_exported(problem, best.plan);
  const std::string beyond = requests_beyond_positions(best.plan, problem.profile.model);
  if (!beyond.empty()) console.note(beyond);
  forget_unused_modules(console, search);
  const std::string unused =
      arguments.planning.overlap.empty() ? "" : overlap_of_nothing(best.plan);
  if (!unused.empty()) console.note(unused);
  const bool is_front = wants_front(arguments, problem);
  report_plans(console, problem, search,
               {.is_front = is_front,
                .risk = risk,
                .said = said_of_plans(arguments.planning),
                .tokens = arguments.planning.run.tokens,
                .compares_frameworks = with_frameworks,
                .stop = interrupt.late_token(),
                .stop_signal = &interrupt.signal()});
  if (!is_front) tell_narrower_boxes(console, arguments, loaded, best, interrupt.late_token());
  return interrupt.interrupted() ? interrupt.exit_code() : 0;
}

std::string strategy_help() {
  std::vector<std::string> names;
  for (const Strategy& strategy : strategies) names.emplace_back(strategy.name);
  return "Search strategy: exact, or a baseline in its own cost model: " + join_words(names);
}

/// A heading of --help, and the options below it.
struct OptionGroup {
  const char* heading;
  std::vector<const char*> options;
};

void group_options(CLI::App& app) {
  const std::array groups{
      OptionGroup{"Framework", {"--for", "--compare-frameworks"}},
      OptionGroup{"Devices", {"--memory", "--bandwidth", "--devices", "--exclude", "--price"}},
      OptionGroup{"Training",
                  {"--batch", "--microbatch", "--mbs", "--sequence", "--precision", "--optimizer",
                   "--gradient-bucket", "--schedule", "--tokens"}},
      OptionGroup{"Inference", {"--prompt-tokens", "--output-tokens", "--chunk-tokens"}},
      OptionGroup{"Parallelism",
                  {"--pp", "--vpp", "--dp", "--tensor-parallel", "--sequence-parallel",
                   "--context-parallel", "--expert-parallel", "--expert-tensor-parallel",
                   "--expert-nodes", "--expert-load", "--sharding", "--straight", "--max-stages",
                   "--min-layers-per-stage", "--fix"}},
      OptionGroup{"Memory", {"--mem-limit", "--recompute"}},
      OptionGroup{"Search",
                  {"--objective", "--time-limit", "--gap", "--top", "--sharing",
                   "--devices-per-link", "--pareto", "--risk", "--spread", "--strategy"}}};
  for (const OptionGroup& group : groups) {
    for (const char* option : group.options) app.get_option(option)->group(group.heading);
  }
}

void declare_options(CLI::App& app, PlanArguments& arguments) {
  declare_planning(app, arguments.planning);
  app.add_option("--compare-frameworks", arguments.compare_frameworks,
                 "Also show the best plan of each framework, found by a short search: on, off, or "
                 "auto, which is on for text output")
      ->type_name("on|off|auto")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_option("--time-limit", arguments.time_limit,
                 "Time limit of the search; the best plan so far is the result")
      ->type_name("D");
  app.add_option("--gap", arguments.gap,
                 "Stop when the plan is proved within this percentage of the optimum (1% on more "
                 "than 16 devices, or 4 with estimated costs of a transformer, else 0%)")
      ->type_name("PERCENT");
  app.add_option("--top", arguments.top, "Number of plans to show (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  declare_sharing(app, arguments.sharing,
                  "Optimise the step with shared links: fair divides a link among the messages on "
                  "it, fifo sends them one after the other");
  app.add_option("--pareto", arguments.pareto,
                 "Pareto front of memory,throughput; each plan has at least a sixteenth less "
                 "memory than the one before")
      ->type_name("A,B");
  declare_risk(
      app, arguments.risk,
      "Optimise this percentile of the step time; memory must fit with the same probability");
  app.add_option("--strategy", arguments.strategy, strategy_help())->type_name("NAME");
  group_options(app);
}

}  // namespace

Action declare_plan(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  declare_options(app, *arguments);
  return [arguments](Console& console) { return make_plan(console, *arguments); };
}

}  // namespace stagecraft
