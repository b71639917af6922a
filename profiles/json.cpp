#include "profiles/json.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/json_document.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

using Value = nlohmann::ordered_json;

struct Json::Document {
  Value root;
  std::string text;
  std::string file;
};

namespace {

/// The value as the user wrote it, shortened for a message.
std::string found(const Value& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  constexpr std::size_t most = 40;
  const std::string text = value.dump();
  return text.size() <= most ? text : text.substr(0, most) + "…";
}

/// "forward_ns[3]" → "forward_ns": the member whose name says what unit bare integers have.
std::string_view member_name(std::string_view path) {
  while (path.ends_with(']')) path.remove_suffix(path.size() - path.rfind('['));
  return path.substr(path.rfind('.') + 1);
}

std::string expected_integer(std::int64_t least, std::int64_t most) {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  if (least == lowest && most == highest) return "expected an integer";
  if (most == highest) return concat("expected an integer >= ", least);
  if (least == lowest) return concat("expected an integer <= ", most);
  return concat("expected an integer from ", least, " to ", most);
}

}  // namespace

Json::Json(std::shared_ptr<const Document> document, const Value* value, std::string path)
    : document_(std::move(document)), value_(value), path_(std::move(path)) {}

Json Json::parse(std::string text, std::string file) {
  auto document = std::make_shared<Document>();
  document->root = parse_document(text, file);
  document->text = std::move(text);
  document->file = std::move(file);
  const Value* root = &document->root;
  return Json(std::move(document), root, "");
}

Json Json::read(const std::filesystem::path& path) {
  return parse(read_file(path), path == "-" ? "standard input" : path.string());
}

bool Json::is_object() const {
  return value_->is_object();
}
bool Json::is_array() const {
  return value_->is_array();
}
bool Json::is_string() const {
  return value_->is_string();
}
bool Json::is_number() const {
  return value_->is_number();
}
bool Json::is_integer() const {
  return value_->is_number_integer();
}
bool Json::is_boolean() const {
  return value_->is_boolean();
}
bool Json::is_null() const {
  return value_->is_null();
}

void Json::allow_only(const std::vector<std::string>& allowed) const {
  for (const std::string& name : names()) {
    if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
    const std::string suggestion = closest(name, allowed);
    const std::string hint =
        suggestion.empty() ? "" : concat("; did you mean \"", suggestion, "\"?");
    (*this)[name].fail(
        concat("unknown member \"", name, "\"; known members: ", join_words(allowed), hint));
  }
}

void Json::expect_format(std::string_view format) const {
  const Json member = (*this)["format"];
  if (member.string() != format) {
    member.fail(concat("expected the format \"", format, "\", found ", found(*member.value_)));
  }
}

bool Json::contains(std::string_view name) const {
  return value_->is_object() && value_->find(std::string(name)) != value_->end();
}

Json Json::operator[](std::string_view name) const {
  if (!value_->is_object()) {
    fail(concat("expected an object with a member \"", name, "\", found ", found(*value_)));
  }
  const auto member = value_->find(std::string(name));
  if (member == value_->end()) fail(concat("the member \"", name, "\" is missing"));
  return Json(document_, &*member, path_.empty() ? std::string(name) : concat(path_, ".", name));
}

Json Json::operator[](std::size_t index) const {
  if (!value_->is_array()) fail(concat("expected a list, found ", found(*value_)));
  if (index >= value_->size()) {
    fail(concat("expected at least ", index + 1, " elements, found ", value_->size()));
  }
  return Json(document_, &(*value_)[index], concat(path_, "[", index, "]"));
}

std::vector<Json> Json::elements() const {
  if (!value_->is_array()) fail(concat("expected a list, found ", found(*value_)));
  std::vector<Json> result;
  for (std::size_t i = 0; i < value_->size(); ++i) result.push_back((*this)[i]);
  return result;
}

std::vector<std::string> Json::names() const {
  if (!value_->is_object()) fail(concat("expected an object, found ", found(*value_)));
  std::vector<std::string> result;
  for (const auto& member : value_->items()) result.push_back(member.key());
  return result;
}

std::string Json::string() const {
  if (!value_->is_string()) fail(concat("expected a text, found ", found(*value_)));
  return value_->get<std::string>();
}

bool Json::boolean() const {
  if (!value_->is_boolean()) fail(concat("expected true or false, found ", found(*value_)));
  return value_->get<bool>();
}

double Json::number() const {
  if (!value_->is_number()) fail(concat("expected a number, found ", found(*value_)));
  return value_->get<double>();
}

std::int64_t Json::integer(std::int64_t least, std::int64_t most) const {
  const auto refuse = [&]() {
    fail(concat(expected_integer(least, most), ", found ", found(*value_)));
  };
  if (!value_->is_number_integer()) refuse();
  const bool beyond =
      value_->is_number_unsigned() &&
      value_->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (beyond) refuse();
  const auto value = value_->get<std::int64_t>();
  if (value < least || value > most) refuse();
  return value;
}

int Json::small_integer(int least, int most) const {
  return static_cast<int>(integer(least, most));
}

namespace {

/// Reads a quantity and lets its parser's complaint point to the value. A bare number goes through
/// the same parser: its answer says which units there are.
template <class Parse>
auto parse_at(const Json& json, Parse parse) {
  try {
    return parse(json.is_number() ? json.raw().dump() : json.string());
  } catch (const Error& error) {
    if (error.place()) throw;
    json.fail(error.message(), error.help());
  }
}

}  // namespace

Duration Json::duration() const {
  if (value_->is_number() && member_name(path_).ends_with("_ns")) return Duration(integer(0));
  return parse_at(*this, parse_duration);
}

Bytes Json::bytes() const {
  if (value_->is_number() && member_name(path_).ends_with("_bytes")) return integer(0);
  return parse_at(*this, parse_bytes);
}

Bandwidth Json::bandwidth() const {
  return parse_at(*this, parse_bandwidth);
}

void Json::fail(const std::string& message, std::vector<std::string> help) const {
  const Position position = position_of(document_->text, document_->root, value_);
  throw Error(ErrorKind::input, path_.empty() ? message : path_ + ": " + message,
              SourcePlace{document_->file, position.line, position.column}, std::move(help));
}

const std::string& Json::file() const {
  return document_->file;
}

const Value& Json::raw() const {
  return *value_;
}

}  // namespace stagecraft
