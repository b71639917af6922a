#include "planner/interop/other_files.hpp"

#include <algorithm>

#include "planner/interop/importers.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/text.hpp"
#include "simulator/views/torch_csv.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view standard_input = "standard input";

/// As an argument of a command.
std::string argument(const std::string& file) {
  return file == standard_input ? "-" : file;
}

[[noreturn]] void fail_other(const std::string& file, std::string_view what, std::string help) {
  throw Error(ErrorKind::input, concat("expected a plan, found what looks like ", what),
              SourcePlace{file, 0, 0}, {std::move(help)});
}

/// A file of ours has its own reader, which says best what is wrong with it.
bool is_file_of_ours(std::string_view content) {
  return content.find("\"stagecraft-") != std::string_view::npos;
}

/// DeepSpeed's parts may stand alone, as any list of numbers; other lists are traces and the like,
/// unless they are the name of a table of TOML.
bool could_be_plan(std::string_view content) {
  const std::string text = trim(content.substr(0, 1000));
  const bool has_table = text.size() > 1 && text[0] == '[' && text[1] >= 'a' && text[1] <= 'z';
  return has_table || !text.starts_with('[') ||
         text.find_first_not_of("[]0123456789, \t\r\n") == std::string::npos;
}

}  // namespace

void refuse_foreign_plan(std::string_view content, const std::string& file) {
  if (is_file_of_ours(content) || !could_be_plan(content)) return;
  for (const PlanImporter& importer : plan_importers) {
    if (!importer.recognise(content)) continue;
    constexpr std::string_view kind = "a plan: ";
    std::string_view what = importer.summary;
    if (what.starts_with(kind)) what.remove_prefix(kind.size());
    fail_other(file, what,
               concat("stagecraft import ", importer.name, " ", argument(file),
                      " --model MODEL --cluster CLUSTER -o plan.json makes a plan of it"));
  }
  if (looks_like_torch_csv(content) && content.find("F0") != std::string_view::npos) {
    fail_other(file, "a schedule, the CSV of torch.distributed.pipelining",
               concat("stagecraft simulate --schedule ", argument(file), ", and check, take one"));
  }
}

void refuse_all_but_plans(std::string_view content, const std::string& file) {
  refuse_foreign_plan(content, file);
  if (is_file_of_ours(content)) return;
  for (const Importer& importer : importers) {
    if (!importer.recognise(content)) continue;
    fail_other(file, concat("a model or profile (", importer.name, ")"),
               concat("stagecraft plan ", argument(file), " CLUSTER -o plan.json makes a plan"));
  }
}

}  // namespace stagecraft
