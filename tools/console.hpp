// What a verb says: its result on standard output, remarks on standard error, one JSON document
// with --json.
//
// Data and messages never mix, colour and progress appear on a terminal only, and equal inputs
// print equal bytes.

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/error.hpp"
#include "simulator/views/draw.hpp"

namespace stagecraft {

/// The options every verb has.
struct CommonOptions {
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  std::string color = "auto";
  bool ascii = false;
  std::string output;  ///< -o; empty: none
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: as many as there are cores
};

/// What is said where standard output takes no more.
inline constexpr const char* output_is_gone =
    "standard output cannot be written: is the disk full, or the reader gone?";
/// What is thrown, and not said, where nobody reads it any more, as behind `| head`.
inline constexpr const char* reader_is_gone = "nobody reads standard output any more";
/// The exit code then: as of programs that SIGPIPE ends.
inline constexpr int exit_without_reader = 141;

/// The error (execution) of a write to standard output that failed with this `errno`.
Error output_error(int reason);

class Console {
 public:
  Console(std::string command, CommonOptions options);

  const CommonOptions& options() const { return options_; }
  bool json() const { return options_.json; }
  /// Is standard output, or error, a terminal that a person looks at?
  bool person_reads_output() const { return output_is_terminal_; }
  bool person_reads_errors() const { return error_is_terminal_; }
  bool color() const;
  bool unicode() const { return !options_.ascii; }
  /// Whether more detail is asked for.
  bool verbose() const { return options_.verbose > 0; }
  /// Whether no text is printed: `-o -` has standard output for itself.
  bool is_silent() const { return file_on_output_; }
  /// Columns of the terminal, 100 without one.
  int width() const;
  DrawOptions drawing() const;

  /// A file the verb read, for the JSON document: as the user named it.
  void input(std::string path, std::string hash);
  /// Text of the result; nothing with --json or --quiet. Where its reader has gone, only what -o
  /// wants is kept; without -o throws Error (execution), which `error` ends quietly.
  void print(std::string_view text);
  /// A remark on standard error (three at most unless --verbose) and in the JSON document.
  void note(std::string text);
  /// A warning on standard error, whatever the verbosity.
  void warn(std::string_view text);
  /// Warns before long work where nobody will see what comes of it: with --quiet, and neither -o
  /// nor --json.
  void warn_if_unseen(std::string_view what);
  /// The file a verb makes: to -o if given; with `-o -` to standard output, where no other text
  /// goes then. True if it was written. Throws Error (usage) for `-o -` beside --json.
  bool artefact(std::string_view content);
  /// What was printed goes to -o, too, unless a file of the verb's own went there.
  void write_printed();
  /// Ends the verb: with --json prints the document around `result`.
  void result(const nlohmann::ordered_json& result);
  /// Ends it with an error: a sentence on standard error and, with --json, a document; without a
  /// word where nobody reads any more. Returns the exit code.
  int error(const Error& error, const nlohmann::ordered_json* result = nullptr);
  /// What `error` prints with --json.
  std::string document_of(const Error& error, const nlohmann::ordered_json* result = nullptr) const;

 private:
  void write_output(std::string_view text);

  std::string command_;
  CommonOptions options_;
  bool output_is_terminal_ = false;
  bool error_is_terminal_ = false;
  bool file_on_output_ = false;
  bool has_reader_ = true;
  bool has_artefact_ = false;
  struct Input {
    std::string path;
    std::string hash;
  };
  std::vector<Input> inputs_;
  std::vector<std::string> notes_;
  std::string printed_;  ///< for -o
};

}  // namespace stagecraft
