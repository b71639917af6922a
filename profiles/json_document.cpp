// nlohmann knows the place of syntax errors only. For every other complaint the place is found when
// it is needed: values have the same order in the parsed tree (walked parents first) and in the
// text, so the n-th value of the one is the n-th value of the other, and no path has to be matched.

#include "profiles/json_document.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/machine_memory.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

constexpr std::size_t deepest = 200;

/// The byte behind the string that opens at `at`.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at + 1;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// The bytes at which the member names and the values of a JSON text begin, in order. The text need
/// only be well-formed as far as it has been parsed.
struct JsonTokens {
  std::vector<std::size_t> names;
  std::vector<std::size_t> values;
};

JsonTokens tokens_of(std::string_view text) {
  constexpr std::string_view punctuation = "]},:";
  JsonTokens tokens;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  while (at < text.size()) {
    const char c = text[at];
    if (is_blank(c) || punctuation.find(c) != std::string_view::npos) {
      ++at;
    } else if (c == '{' || c == '[') {
      tokens.values.push_back(at++);
    } else if (c == '"') {
      const std::size_t start = at;
      at = end_of_string(text, at);
      std::size_t next = at;
      while (next < text.size() && is_blank(text[next])) ++next;
      const bool is_name = next < text.size() && text[next] == ':';
      (is_name ? tokens.names : tokens.values).push_back(start);
    } else {
      tokens.values.push_back(at);
      while (at < text.size() && !is_blank(text[at]) &&
             punctuation.find(text[at]) == std::string_view::npos)
        ++at;
    }
  }
  return tokens;
}

/// How many values stand before `wanted` when parents come before their children; counts on in
/// `before`.
bool count_before(const Value& value, const Value* wanted, std::size_t& before) {
  if (&value == wanted) return true;
  ++before;
  if (!value.is_structured()) return false;
  for (const Value& child : value) {
    if (count_before(child, wanted, before)) return true;
  }
  return false;
}

/// Builds the tree and stops at the first thing that we do not accept.
class Builder : public nlohmann::json_sax<Value> {
 public:
  Builder(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Value take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override {
    open(Value::object());
    seen_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!seen_.back().insert(name).second) {
      // Where no colon follows, it is no member yet, and the parser says so next.
      const std::vector<std::size_t> places = tokens_of(text_).names;
      if (names_ < places.size()) fail_at(places[names_], duplicate(name));
    }
    ++names_;
    name_ = name;
    return true;
  }
  bool end_object() override {
    seen_.pop_back();
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    open(Value::array());
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t byte, const std::string& last,
                   const nlohmann::detail::exception& error) override {
    std::string what = error.what();
    if (what.find("number overflow") != std::string::npos) {
      fail_at(byte - std::min(byte, last.size()),
              concat("the number ", last, " is beyond what a double can hold"));
    }
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while …":
    // keep the last part.
    const std::size_t cut = what.find("syntax error");
    if (cut != std::string::npos) what = what.substr(cut);
    if (text_.empty()) what = "the file is empty";
    fail_at(byte == 0 ? 0 : byte - 1, "not valid JSON: " + what);
  }

 private:
  static std::string duplicate(const std::string& name) {
    return concat("the member \"", name, "\" appears twice in one object");
  }

  [[noreturn]] void fail_at(std::size_t byte, const std::string& message) const {
    const Position position = position_at(text_, byte);
    throw Error(ErrorKind::input, message, SourcePlace{file_, position.line, position.column});
  }

  template <class T>
  bool add(T&& value) {
    place(Value(std::forward<T>(value)));
    return true;
  }

  void open(Value value) {
    if (open_.size() >= deepest) fail_at(tokens_of(text_).values.at(values_), "nested too deeply");
    open_.push_back(place(std::move(value)));
  }

  /// Pointers into the open containers stay valid: a container grows only while it is the innermost
  /// one.
  Value* place(Value value) {
    ++values_;
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Value& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    parent.get_ref<Value::object_t&>().Container::emplace_back(name_, std::move(value));
    return &parent.get_ref<Value::object_t&>().back().second;
  }

  using Container = Value::object_t::Container;

  std::string_view text_;
  const std::string& file_;
  Value root_;
  std::vector<Value*> open_;
  std::vector<std::set<std::string>> seen_;
  std::string name_;
  std::size_t names_ = 0;
  std::size_t values_ = 0;
};

}  // namespace

Position position_at(std::string_view text, std::size_t byte) {
  Position position;
  for (std::size_t at = 0; at < byte && at < text.size(); ++at) {
    const bool continues_character = (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
    if (text[at] == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!continues_character) {
      ++position.column;
    }
  }
  return position;
}

namespace {

/// Before any of it is taken: values are many times as large as their text, and to let go of them
/// takes memory, too, which may not fail.
void require_memory_for(std::string_view text, const std::string& file) {
  constexpr std::size_t always_fits = 1 << 20;
  constexpr Bytes per_value = 64;  // its place while lists grow, and what it holds
  if (text.size() < always_fits) return;
  Bytes values = 0;
  for (const char letter : text) values += letter == ',' || letter == '[' || letter == '{';
  require_memory(values * per_value + static_cast<Bytes>(text.size()), concat("reading ", file),
                 "give a smaller file");
}

}  // namespace

Value parse_document(std::string_view text, const std::string& file) {
  require_memory_for(text, file);
  Builder builder(text, file);
  Value::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

Position position_of(std::string_view text, const Value& root, const Value* value) {
  std::size_t index = 0;
  count_before(root, value, index);
  const JsonTokens tokens = tokens_of(text);
  return position_at(text, index < tokens.values.size() ? tokens.values[index] : 0);
}

}  // namespace stagecraft
