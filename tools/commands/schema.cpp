// stagecraft schema: JSON Schemas of our files.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tools/commands.hpp"
#include "tools/schemas/schemas.hpp"
#include "tools/table.hpp"

namespace stagecraft {
namespace {

using nlohmann::ordered_json;

int list_schemas(Console& console) {
  ordered_json list = ordered_json::array();
  Table table({"schema", "format", "of"});
  for (const Schema& schema : schemas()) {
    table.row({std::string(schema.name), std::string(schema.format), std::string(schema.summary)});
    list.push_back({{"name", schema.name}, {"format", schema.format}, {"title", schema.summary}});
  }
  console.print(table.text(console.unicode()));
  console.result({{"schemas", std::move(list)}});
  return 0;
}

/// By its name, or by the "format" of the file that it is of.
const Schema& schema_named(std::string_view name) {
  std::vector<std::string> known;
  for (const Schema& schema : schemas()) {
    if (schema.name == name || schema.format == name) return schema;
    known.emplace_back(schema.name);
  }
  fail_unknown("schema", name, known);
}

/// With the schemas that it refers to among its definitions, so that it is complete in one file
/// (JSON Schema core, section 9.3.1: a compound schema document).
ordered_json bundled(const Schema& schema) {
  ordered_json json = ordered_json::parse(schema.text);
  for (const Schema& other : schemas()) {
    const std::string reference = concat("\"$ref\": \"urn:stagecraft:", other.format, "\"");
    if (schema.text.find(reference) != std::string_view::npos)
      json["$defs"][std::string(other.name)] = ordered_json::parse(other.text);
  }
  return json;
}

int show_schema(Console& console, const std::string& name) {
  const ordered_json json = bundled(schema_named(name));
  const std::string text = to_text(json);
  if (!console.artefact(text)) console.print(text);
  console.result(json);
  return 0;
}

}  // namespace

Action declare_schema(CLI::App& app) {
  auto name = std::make_shared<std::string>("list");
  app.add_option("schema", *name, "Name of a schema, or list (list)")->type_name("SCHEMA");
  return [name](Console& console) {
    if (*name != "list") return show_schema(console, *name);
    if (!console.options().output.empty())
      fail_usage("-o takes one schema: stagecraft schema plan -o plan.schema.json");
    return list_schemas(console);
  };
}

}  // namespace stagecraft
