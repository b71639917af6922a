// MODEL of the command line: a built-in name, or a file that is recognised by its content.

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/missing_file.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

bool is_builtin(std::string_view name) {
  for (const std::string& known : builtin_models()) {
    if (known == name) return true;
  }
  return false;
}

/// Does the argument say by its form that it is a file? Then a missing one is no mistyped name.
bool names_a_model_file(std::string_view argument) {
  return argument == "-" || argument.find('/') != std::string_view::npos ||
         argument.ends_with(".json") || argument.ends_with(".txt") || argument.ends_with(".csv");
}

/// What MODEL may be.
std::vector<std::string> known_models() {
  std::string list = "built in:";
  for (const std::string& name : builtin_models()) list += " " + name;
  return {list,
          "or give a file: a Hugging Face config.json, a PipeDream graph.txt, an input of Piper or "
          "dnn-partitioning, a table of Aceso's profiles, a model or profile"};
}

[[noreturn]] void fail_no_model(std::string_view argument) {
  const std::string suggestion = closest(argument, builtin_models());
  std::string message = concat("no model is named \"", argument, "\" and there is no such file");
  if (!suggestion.empty()) message += concat("; did you mean \"", suggestion, "\"?");
  fail_with_help(ErrorKind::usage, message, known_models());
}

/// Of a file that is not there: the built-in model that is called nearly so, or all that may be.
std::vector<std::string> instead_of_model_file(std::string_view file) {
  const std::string near = nearest_name(file, builtin_models());
  return near.empty() ? known_models() : std::vector{near};
}

[[noreturn]] void fail_unrecognised(const std::string& file) {
  std::string known = "stagecraft-model/1 and stagecraft-profile/1";
  for (const Importer& importer : importers) {
    known += concat("; ", importer.name, ": ", importer.summary);
  }
  throw Error(ErrorKind::input, "the content is of no format we know as a model or profile",
              SourcePlace{file, 0, 0}, {"known formats: " + known});
}

/// Our own formats, by the member "format"; nothing if the content has no such member.
std::optional<Profile> read_own(const std::string& content, const std::string& file) {
  const std::string start = trim(std::string_view(content).substr(0, 64));
  if (!start.starts_with('{')) return {};
  const Json json = Json::parse(content, file);
  if (!json.contains("format")) return {};
  const Json format = json["format"];
  if (format.string() == "stagecraft-profile/1") return read_profile(json);
  if (format.string() == "stagecraft-model/1") {
    Profile profile;
    profile.model = read_model(json);
    profile.source = "model file";
    return profile;
  }
  format.fail(concat("expected \"stagecraft-model/1\" or \"stagecraft-profile/1\", found \"",
                     format.string(), "\""));
}

Profile read_any(const std::string& content, const std::string& file) {
  // First, since Python writes numbers into it that are not JSON.
  if (looks_like_huggingface(content)) return import_huggingface(content, file);
  if (std::optional<Profile> own = read_own(content, file)) return *std::move(own);
  for (const Importer& importer : importers) {
    if (importer.recognise(content)) return importer.import(content, file);
  }
  fail_unrecognised(file);
}

/// Complaints about the meaning of a file's content name the file.
void validate_at(const Profile& profile, const std::string& file) {
  try {
    validate(profile);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), SourcePlace{file, 0, 0}, error.help());
  }
}

}  // namespace

LoadedProfile load_profile(std::string_view argument) {
  LoadedProfile loaded;
  loaded.path = std::string(argument);
  if (is_builtin(argument)) {
    loaded.profile.model = builtin_model(argument);
    loaded.profile.source = "built in";
    loaded.hash = content_hash(write_model(loaded.profile.model));
    return loaded;
  }
  std::error_code ignored;
  if (!names_a_model_file(argument) && !std::filesystem::exists(loaded.path, ignored))
    fail_no_model(argument);
  require_file(loaded.path, instead_of_model_file(argument));
  const std::string content = read_file(loaded.path);
  const std::string file = argument == "-" ? "standard input" : loaded.path;
  loaded.profile = read_any(content, file);
  validate_at(loaded.profile, file);
  loaded.hash = content_hash(content);
  loaded.content = content;
  return loaded;
}

}  // namespace stagecraft
