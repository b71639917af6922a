// The output of a verb: its result on standard output, notes on standard error, one JSON document
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

/// The options that every verb has.
struct CommonOptions {
  bool json = false;
  bool quiet = false;
  int verbose = 0;
  std::string color = "auto";
  bool ascii = false;
  std::string output;  ///< -o; empty: none
  std::uint64_t seed = 1;
  int threads = 0;  ///< 0: one for each core
};

/// The error if standard output cannot be written to.
inline constexpr const char* output_is_gone =
    "standard output cannot be written: is the disk full, or the reader gone?";
/// The text of the error, which is thrown but not printed, if standard output has lost its reader,
/// as with `| head`.
inline constexpr const char* reader_is_gone = "nobody reads standard output any more";
/// The exit code in that case: that of programs ended by SIGPIPE.
inline constexpr int exit_without_reader = 141;

/// The error (execution) for a write to standard output that failed with this `errno`.
Error output_error(int reason);

class Console {
 public:
  Console(std::string command, CommonOptions options);

  const CommonOptions& options() const { return options_; }
  bool json() const { return options_.json; }
  /// Whether standard output, or standard error, is a terminal.
  bool person_reads_output() const { return output_is_terminal_; }
  bool person_reads_errors() const { return error_is_terminal_; }
  bool color() const;
  bool unicode() const { return !options_.ascii; }
  /// Whether --verbose was given.
  bool verbose() const { return options_.verbose > 0; }
  /// Whether no text is printed, since `-o -` uses standard output.
  bool is_silent() const { return file_on_output_; }
  /// Width of the terminal in columns; 100 without a terminal.
  int width() const;
  DrawOptions drawing() const;

  /// Records a file that the verb read, for the JSON document, by the name that the user gave.
  void input(std::string path, std::string hash);
  /// Prints text of the result; nothing with --json or --quiet. If standard output has lost its
  /// reader, the text is only kept for -o; without -o throws Error (execution), which `error` does
  /// not print.
  void print(std::string_view text);
  /// Prints a note on standard error (at most three without --verbose), and records it in the JSON
  /// document.
  void note(std::string text);
  /// Prints a warning on standard error, at every verbosity.
  void warn(std::string_view text);
  /// Warns before long work whose result would be lost: with --quiet, and neither -o nor --json.
  void warn_if_unseen(std::string_view what);
  /// Writes the verb's file to -o, if given; `-o -` writes it to standard output, which then gets
  /// no other text. Returns whether it was written. Throws Error (usage) for `-o -` with --json.
  bool artefact(std::string_view content);
  /// Writes the printed text to -o, too, unless the verb wrote a file of its own there.
  void write_printed();
  /// Ends the verb; with --json prints the document around `result`.
  void result(const nlohmann::ordered_json& result);
  /// Ends the verb with an error: a sentence on standard error and, with --json, a document; prints
  /// nothing if standard output has lost its reader. Returns the exit code.
  int error(const Error& error, const nlohmann::ordered_json* result = nullptr);
  /// The document that `error` prints with --json.
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
