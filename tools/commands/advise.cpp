// stagecraft advise PLAN|SCRIPT: what to change, in the words of what carries the plan out.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/analysis/advice.hpp"
#include "planner/analysis/frameworks.hpp"
#include "planner/interop/importers.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/launch/interrupt.hpp"
#include "tools/options/applicable.hpp"
#include "tools/options/arguments.hpp"
#include "tools/options/flag_meanings.hpp"
#include "tools/options/memory_options.hpp"
#include "tools/options/plan_options.hpp"
#include "tools/reports/advice_report.hpp"
#include "tools/reports/kept_plan.hpp"
#include "tools/reports/progress.hpp"
#include "tools/reports/results.hpp"

namespace stagecraft {
namespace {

struct AdviseArguments {
  std::string input, target, keep, time_limit;
  PlanFlags script;
  MemoryOptions memory;
  int top = 8, depth = 4;
};

/// A plan of another system, by its content; nothing for ours.
const PlanImporter* foreign_format(const std::string& content) {
  if (content.find("\"stagecraft-") != std::string::npos) return nullptr;
  for (const PlanImporter& importer : plan_importers) {
    if (importer.recognise(content)) return &importer;
  }
  return nullptr;
}

/// What is advised on, the framework it is of, and how its plan is made again.
struct Advised {
  LoadedPlan loaded;
  const Target* target = nullptr;
  std::string import_command;  ///< empty for a plan's file
  ScriptFlags flags = {};      ///< of Megatron-LM's scripts
};

std::string word_of_shell(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=@,:+%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

/// Flags that `import` has, too: of what a plan says itself, and a script may leave open.
const std::vector<const char*> flags_of_plans{"--model",
                                              "--cluster",
                                              "--batch",
                                              "--microbatch",
                                              "--sequence",
                                              "--precision",
                                              "--kernels",
                                              "--dispatcher",
                                              "--cuda-graphs",
                                              "--fp8-recipe",
                                              "--fused-loss",
                                              "--router-fusion",
                                              "--recompute-modules",
                                              "--overlap",
                                              "--optimizer",
                                              "--sharding",
                                              "--gradient-bucket",
                                              "--schedule",
                                              "--replicas"};

/// They, and what a script's variables are.
std::vector<const char*> flags_of_scripts() {
  std::vector<const char*> flags = flags_of_plans;
  flags.push_back("--set");
  return flags;
}

/// Those that were given.
std::string given_flags(const CLI::App& app) {
  std::string text;
  for (const char* flag : flags_of_scripts()) {
    for (const std::string& value : app.get_option(flag)->results())
      text += concat(" ", flag, " ", word_of_shell(value));
  }
  return text;
}

const Target* target_of_format(std::string_view format) {
  for (const Target* target : newest_targets()) {
    if (target->name == format) return target;
  }
  return nullptr;
}

/// "--seq-length 4096", as the importer understood it.
ScriptFlags flags_of_script(const ImportedPlan& imported) {
  ScriptFlags flags;
  for (const ReadText& read : imported.understood) {
    if (!read.text.starts_with("--")) continue;
    const std::size_t end = read.text.find_first_of(" =");
    const std::string value = end == std::string::npos ? "" : trim(read.text.substr(end + 1));
    flags[read.text.substr(0, end)] = value.empty() ? "on" : value;
  }
  return flags;
}

Advised read_script(Console& console, const CLI::App& app, const PlanImporter& importer,
                    const std::string& content, const AdviseArguments& arguments) {
  PlanFlags script = arguments.script;
  if (script.model.empty())
    script.model = model_in_file(importer, content, arguments.input, script);
  if (script.model.empty()) {
    fail_usage(arguments.input, " is a plan of ", importer.name,
               ", which has no layers and devices of its own; add --model MODEL",
               script.cluster.empty() ? " and --cluster CLUSTER" : "");
  }
  const PlanQuestion question = question_from(console, script);
  ImportedPlan imported = import_plan(importer, content, arguments.input, question);
  for (const OtherFile& other : imported.others)
    console.input(other.path, content_hash(other.content));
  for (const std::string& note : imported.notes) console.note(note);
  for (const auto* texts : {&imported.not_modelled, &imported.unknown}) {
    for (const ReadText& text : *texts) {
      console.warn(concat(texts == &imported.unknown ? "not known: " : "not modelled: ", text.text,
                          " (", text.place.file, ":", text.place.line, ")"));
    }
  }
  const std::string command =
      concat("stagecraft import ", importer.name, " ", word_of_shell(arguments.input),
             given_flags(app), " -o plan.json");
  Profile profile = in_plan_order(question.profile, imported.plan);
  const ScriptFlags flags = flags_of_script(imported);
  return {.loaded = {.plan = std::move(imported.plan),
                     .profile = std::move(profile),
                     .cluster = question.cluster,
                     .path = arguments.input,
                     .hash = content_hash(content)},
          .target = target_of_format(importer.name),
          .import_command = command,
          .flags = importer.name == megatron_target.name ? flags : ScriptFlags{}};
}

Advised read_input(Console& console, const CLI::App& app, const AdviseArguments& arguments) {
  const std::string content = read_file(arguments.input);
  if (const PlanImporter* importer = foreign_format(content)) {
    console.input(arguments.input, content_hash(content));
    return read_script(console, app, *importer, content, arguments);
  }
  refuse_given(app, {"--set"},
               "is for variables of a launch script; stagecraft simulate PLAN --set asks what if");
  refuse_given(app, flags_of_plans, "goes with a launch script; a plan says it itself");
  LoadedPlan loaded = load_plan_text(content, arguments.input);
  console.input(loaded.path, loaded.hash);
  const Target* target = target_of(loaded.plan);
  return {.loaded = std::move(loaded), .target = target, .import_command = {}};
}

void note_own_oddities(Console& console, const AdviceQuestion& question, const LoadedPlan& loaded) {
  if (question.target == nullptr) return;
  const Target& target = *question.target;
  LoadedPlan plain = loaded;
  plain.plan.search.reset();
  const auto reasons = reasons_against(target, plain);
  if (reasons.empty()) return;
  const bool goes_on = question.is_of_script || target.format.empty() || has_launch(target, plain);
  console.note(concat(
      "the plan as it is does not run in ", target.system, ": ", reasons.front(),
      goes_on ? "; what is advised has no more against it than that" : "; what is advised does"));
}

/// Whose words the rows are in; nothing where they are our own, as nobody asked for others.
std::string heading_of_words(const Target* target, const std::vector<AdvisedEdit>& edits) {
  if (target == nullptr || target->format.empty() || edits.empty()) return "";
  const bool is_own = std::ranges::all_of(
      edits, [](const AdvisedEdit& edit) { return is_in_own_words(edit.flags); });
  if (is_own) {
    return fmt::format(
        "as changes of the plan; `stagecraft export {}` writes the launch of what they make\n",
        target->name);
  }
  return fmt::format("in the words of {} {}\n", target->system, target->version);
}

/// The command whose step the row has, and that keeps it as a plan; `file` holds that already.
std::string again(const Advised& advised, const AdvisedEdit& edit, const MemoryOptions& memory,
                  const std::string& file) {
  const bool is_plan = advised.import_command.empty();
  const std::string keep = file.empty() ? " --write-plan better.json" : "";
  return fmt::format(
      "the best again{}\n{}stagecraft simulate {}{}{}{}\n",
      file.empty() || file == "-" ? ", to keep as a plan" : concat(", whose plan is in ", file),
      is_plan ? "" : advised.import_command + "\n",
      is_plan ? word_of_shell(advised.loaded.path) : "plan.json", set_flags(edit.changes),
      words_of(memory), keep);
}

/// The best of all rows; nothing without any.
const AdvisedEdit* best_row(const Advice& advice) {
  if (advice.together) return &*advice.together;
  const AdvisedEdit* best = nullptr;
  for (const auto* edits : {&advice.singles, &advice.pairs}) {
    if (edits->empty()) continue;
    if (best == nullptr || edits->front().prediction.step < best->prediction.step)
      best = &edits->front();
  }
  return best;
}

std::string limit_words(const Prediction& now, const std::vector<std::string>& keep) {
  return fmt::format(
      "{}{}", now.fits ? "faster" : "that fits",
      keep.empty() ? "" : fmt::format(" with {} as they are", fmt::join(keep, ", ")));
}

/// Nothing fits: the reason, and what comes closest.
int report_nothing_fits(Console& console, const Advised& advised, const Advice& advice,
                        const std::vector<std::string>& keep,
                        const nlohmann::ordered_json& result) {
  std::vector<std::string> help;
  if (advice.closest) {
    help.push_back(fmt::format("closest is{}, with {}", set_flags(advice.closest->changes),
                               highest_peak(advice.closest->prediction)));
  }
  help.push_back(keep.empty() ? "more devices, or a smaller sequence or batch, would be needed"
                              : "without --keep there are more edits to try");
  return console.error(
      Error(ErrorKind::infeasible,
            fmt::format("{} does not fit ({}), and no edit of {} that were tried makes it fit",
                        advised.loaded.path, highest_peak(advice.now), advice.tried),
            {}, help),
      &result);
}

/// Keys of --set, or flags of a framework that say the same.
std::vector<std::string> read_names_to_keep(const std::string& text) {
  std::vector<std::string> names;
  for (const std::string& word : read_words("--keep", text)) {
    const std::string key = key_of_flag(word);
    names.push_back(is_change_key(word) || key.empty() ? word : key);
  }
  return names;
}

int give_advice(Console& console, const CLI::App& app, const AdviseArguments& arguments) {
  AdviceQuestion question{.target = nullptr, .keep = {}, .stop = {}};
  if (!arguments.target.empty()) question.target = &find_target(arguments.target);
  if (!arguments.keep.empty()) question.keep = read_names_to_keep(arguments.keep);
  question.top = static_cast<std::size_t>(arguments.top);
  question.depth = arguments.depth;
  question.threads = console.options().threads;
  std::optional<Duration> limit;
  if (!arguments.time_limit.empty()) limit = read_duration("--time-limit", arguments.time_limit);
  Advised advised = read_input(console, app, arguments);
  set_memory(arguments.memory, advised.loaded, console);
  if (arguments.target.empty()) question.target = advised.target;
  if (question.target == advised.target) question.script = advised.flags;
  question.is_of_script = !advised.import_command.empty() && question.target == advised.target;
  note_own_oddities(console, question, advised.loaded);
  const bool unicode = console.unicode();
  const Plan& plan = advised.loaded.plan;
  console.print(plan_words(plan, advised.loaded.profile.model, unicode) + "\n");
  Interrupt interrupt(limit);
  question.stop = interrupt.token();
  Progress progress(console, "trying edits");
  question.progress = [&](int done, int of) {
    progress.update(static_cast<double>(done) / of, fmt::format("{} of {}", done, of));
  };
  question.singles_found = [&](const Advice& advice) {
    progress.clear();
    console.print(fmt::format("now {}, {}{}\n", format_duration(advice.now.step),
                              highest_peak(advice.now),
                              advice.now.fits ? "" : ": does not fit in memory"));
    console.print(heading_of_words(question.target, advice.singles));
    console.print(advice_table("single edits", advice.singles, unicode));
  };
  const Advice advice = advise(advised.loaded, question);
  progress.clear();
  nlohmann::ordered_json result{
      {"target", question.target == nullptr ? nlohmann::ordered_json()
                                            : nlohmann::ordered_json(to_words(*question.target))}};
  result.update(advice_json(advised.loaded, advice));
  const AdvisedEdit* best = best_row(advice);
  if (best == nullptr && !advice.now.fits && !interrupt.interrupted())
    return report_nothing_fits(console, advised, advice, question.keep, result);
  console.print(advice_table("pairs, and layers moved", advice.pairs, unicode));
  if (advice.together) console.print(advice_table("all together", {*advice.together}, unicode));
  if (best == nullptr) {
    console.print(fmt::format("{} edits and pairs were tried, none of them {}\n", advice.tried,
                              limit_words(advice.now, question.keep)));
  } else {
    console.print(again(advised, *best, arguments.memory, console.options().output));
    console.artefact(text_of_kept_plan(best->plan, advised.loaded.path, best->prediction));
  }
  const bool interrupted = interrupt.token().stop_requested();
  result["interrupted"] = interrupted;
  if (interrupted) console.note("stopped early: there may be better edits");
  console.result(result);
  return interrupt.interrupted() ? interrupt.exit_code() : 0;
}

void declare_options(CLI::App& app, AdviseArguments& arguments) {
  app.add_option("input", arguments.input,
                 "Plan file, or a launch script or other plan that `import` reads")
      ->type_name("PLAN|SCRIPT")
      ->required();
  app.add_option(
         "--for", arguments.target,
         "Framework whose flags are printed, and which must be able to run the advised plans (the "
         "script's, or the one that the plan was made for): a name of `plan --for`")
      ->type_name("NAME");
  app.add_option(
         "--keep", arguments.keep,
         "Properties that must stay: keys of simulate's --set, such as tp,pp, or the framework's "
         "own flags, such as tensor-model-parallel-size")
      ->type_name("NAMES");
  app.add_option("--top", arguments.top, "Number of single edits, and of pairs, to show (8)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  app.add_option("--depth", arguments.depth,
                 "Maximum number of edits in the last row, which combines several; 2 leaves the "
                 "row out (4)")
      ->type_name("N")
      ->check(CLI::Range(2, 32));
  app.add_option("--time-limit", arguments.time_limit,
                 "Time limit; the best edits so far are the result")
      ->type_name("D");
  declare_memory(app, arguments.memory, "Plan");
  declare_plan_flags(app, arguments.script);
  for (const char* flag : flags_of_scripts()) app.get_option(flag)->group("With a launch script");
  app.get_option("--model")->description("Model of the script");
  app.get_option("--cluster")->description("Cluster of the script");
}

}  // namespace

Action declare_advise(CLI::App& app) {
  auto arguments = std::make_shared<AdviseArguments>();
  declare_options(app, *arguments);
  return [arguments, &app](Console& console) { return give_advice(console, app, *arguments); };
}

}  // namespace stagecraft
