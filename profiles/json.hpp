// Reading and writing our JSON files.
//
// `Json` is a cursor into a parsed document that remembers the file and the path to its value, so
// that every complaint names file, line, column and place: `gpt2.plan.json:14:18:
// stages[2].layers[1]: expected an integer >= 8, found "7"`. Readers call `allow_only` first: an
// unknown member is an error with a suggestion, never ignored.

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/units.hpp"

namespace stagecraft {

/// A value inside a parsed document. Cheap to copy; keeps the document alive.
class Json {
 public:
  /// Parses a whole text; `file` is what errors call it. Throws Error (input) with line and column
  /// on bad syntax, on duplicate members and on numbers outside of double (NaN and Infinity are not
  /// JSON).
  static Json parse(std::string text, std::string file);

  /// Reads a file, or standard input for "-". Throws Error (input) if it cannot be read.
  static Json read(const std::filesystem::path& path);

  bool is_object() const;
  bool is_array() const;
  bool is_string() const;
  bool is_number() const;
  bool is_integer() const;
  bool is_boolean() const;
  bool is_null() const;

  /// Throws unless this is an object whose members are all among `names` (with "did you mean").
  void allow_only(const std::vector<std::string>& names) const;
  /// Throws unless the member "format" equals `format`, for example "stagecraft-plan/1".
  void expect_format(std::string_view format) const;

  bool contains(std::string_view name) const;
  /// The member; throws if it is missing or this is not an object.
  Json operator[](std::string_view name) const;
  /// The element; throws if out of range or this is not an array.
  Json operator[](std::size_t index) const;
  /// Elements of an array (throws if it is not one).
  std::vector<Json> elements() const;
  /// Member names of an object in file order (throws if it is not one).
  std::vector<std::string> names() const;

  std::string string() const;
  bool boolean() const;
  double number() const;
  /// An integer in [least, most]; a number with a fraction or outside of it is an error that states
  /// the range.
  std::int64_t integer(std::int64_t least = INT64_MIN, std::int64_t most = INT64_MAX) const;
  int small_integer(int least, int most) const;
  /// Strings with units, or — only for `duration` and `bytes` members that end in _ns or _bytes —
  /// integers.
  Duration duration() const;
  Bytes bytes() const;
  Bandwidth bandwidth() const;

  /// Throws Error (input) at this value: "file:line:column: path: message".
  [[noreturn]] void fail(const std::string& message, std::vector<std::string> help = {}) const;

  const std::string& file() const;
  /// For code that needs the raw value (.cpp files that include <nlohmann/json.hpp>).
  const nlohmann::ordered_json& raw() const;

 private:
  struct Document;
  Json(std::shared_ptr<const Document> document, const nlohmann::ordered_json* value,
       std::string path);

  std::shared_ptr<const Document> document_;
  const nlohmann::ordered_json* value_ = nullptr;
  std::string path_;
};

/// Our layout of JSON text: two spaces, short arrays and objects of scalars on one line (at most
/// 100 columns), a final newline; equal values give equal bytes.
std::string to_text(const nlohmann::ordered_json& value);

/// Writes a file as a whole or not at all (temporary file, then rename), "-" is standard output.
/// Throws Error (execution) naming the path if that fails (no such folder, disk full).
void write_file(const std::filesystem::path& path, std::string_view content);

/// Throws what `write_file` would for a path whose folder is not there, or takes no file: before
/// hours of work, not behind them.
void require_writable(const std::filesystem::path& path);

/// Reads a file, also one of gzip, "-" is standard input. Throws Error (input) naming the path.
std::string read_file(const std::filesystem::path& path);

/// "xxh3:" and 32 hexadecimal digits: the XXH3-128 hash of the bytes, our name for contents.
std::string content_hash(std::string_view bytes);

}  // namespace stagecraft
