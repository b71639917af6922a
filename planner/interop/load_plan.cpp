#include "planner/interop/load_plan.hpp"

#include <filesystem>
#include <variant>

#include "planner/interop/other_files.hpp"
#include "planner/plan/plan_fault.hpp"
#include "planner/plan/transformers_modules.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/missing_file.hpp"

namespace stagecraft {

namespace {

/// The value a fault is about, or the nearest one around it that the file has.
Json follow(Json json, const PlanFault& fault) {
  for (const auto& step : fault.path) {
    if (const auto* member = std::get_if<std::string>(&step)) {
      if (!json.contains(*member)) return json;
      json = json[*member];
    } else {
      json = json[static_cast<std::size_t>(std::get<int>(step))];
    }
  }
  return json;
}

/// The file a plan names: as given, or the one of that name beside the plan.
std::string beside(std::string_view plan_path, const std::string& name) {
  namespace files = std::filesystem;
  std::error_code unreadable;
  if (name.empty() || files::exists(name, unreadable)) return name;
  const files::path neighbour = files::path(plan_path).parent_path() / name;
  return files::exists(neighbour, unreadable) ? neighbour.string() : name;
}

/// Loads what a member names; a complaint about the name itself is put at its place.
template <class Load>
auto load_named(const Json& json, std::string_view plan_path, Load load) {
  try {
    return load(beside(plan_path, json.string()));
  } catch (const Error& error) {
    if (!error.place()) json.fail(error.message(), error.help());
    std::error_code ignored;
    const bool is_there = std::filesystem::exists(error.place()->file, ignored);
    if (is_there || error.place()->line > 0) throw;
    json.fail(concat("there is no file \"", json.string(), "\", neither here nor beside the plan"),
              {"restore it, or make the plan again with `stagecraft plan`"});
  }
}

void require_same_profile(const Json& json, const Plan& plan, const LoadedProfile& loaded) {
  if (plan.profile.empty() || plan.profile == loaded.hash) return;
  json["profile"].fail(concat("the plan was made with other costs of \"", plan.model,
                              "\": they are now ", loaded.hash),
                       {"make the plan again with `stagecraft plan`, or restore the file",
                        "to use it all the same, set \"profile\" to the new hash"});
}

/// Of a file that was read as a model before, and so can be again.
std::string architecture_in(const std::string& file) {
  std::error_code unreadable;
  if (!std::filesystem::is_regular_file(file, unreadable)) return "";
  const std::string text = read_file(file);
  if (text.find("\"model_type\"") == std::string::npos) return "";
  return transformers_architecture(Json::parse(text, file));
}

Profile ordered_profile(const Json& json, const Plan& plan, const Profile& profile) {
  try {
    return in_plan_order(profile, plan);
  } catch (const Error& error) {
    json["order"].fail(error.message(), error.help());
  }
}

void require_valid(const Json& json, const LoadedPlan& loaded) {
  const auto fault = find_fault(loaded.plan, loaded.profile.model, loaded.cluster);
  if (fault) follow(json, *fault).fail(fault->message, fault->help);
}

}  // namespace

LoadedPlan load_plan(std::string_view path) {
  require_file(path, {"`stagecraft plan MODEL CLUSTER -o FILE` makes a plan"});
  return load_plan_text(read_file(path), path);
}

LoadedPlan load_plan_text(const std::string& text, std::string_view path) {
  const std::string file = path == "-" ? "standard input" : std::string(path);
  refuse_all_but_plans(text, file);
  const Json json = Json::parse(text, file);
  LoadedPlan loaded;
  loaded.plan = read_plan(json);
  loaded.path = path;
  loaded.hash = content_hash(text);
  const LoadedProfile profile = load_named(json["model"], path, load_profile);
  require_same_profile(json, loaded.plan, profile);
  loaded.profile = ordered_profile(json, loaded.plan, profile.profile);
  loaded.architecture = architecture_in(beside(path, loaded.plan.model));
  loaded.cluster = load_named(json["cluster"], path, load_cluster);
  require_valid(json, loaded);
  return loaded;
}

}  // namespace stagecraft
