#include "tools/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "executor/transports/processes.hpp"
#include "profiles/json.hpp"
#include "profiles/printable.hpp"
#include "tools/build_info.hpp"
#include "tools/reports/progress.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view result_format = "stagecraft-result/1";
constexpr std::size_t notes_shown = 3;

/// mpirun gives its ranks a terminal of its own, wherever their output goes.
bool is_terminal(int descriptor) {
  try {
    if (launch()) return false;
  } catch (const Error&) {
    return false;  // said where it matters
  }
  const char* term = std::getenv("TERM");
  return isatty(descriptor) != 0 && !(term != nullptr && std::string_view(term) == "dumb");
}

/// Whether the stream took all of it.
bool is_written(std::FILE* stream, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  return std::fflush(stream) == 0 && written;
}

/// Throws Error (execution) where standard output does not take it; standard error may be closed.
void write(std::FILE* stream, std::string_view text) {
  errno = 0;
  if (!is_written(stream, text) && stream == stdout) throw output_error(errno);
}

/// The sequence that chooses a colour ("\x1b[…m") at the text's beginning, which is an escape;
/// empty if there is none.
std::string_view colour_at_beginning(std::string_view text) {
  if (!text.starts_with("\x1b[")) return {};
  const std::size_t end = text.find_first_not_of("0123456789;", 2);
  return end != text.npos && text[end] == 'm' ? text.substr(0, end + 1) : std::string_view();
}

/// The text as it may be shown, with what `change` makes of each colour in it.
template <class Change>
std::string with_colours(std::string_view text, const Change& change) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view colour = colour_at_beginning(text);
    if (!colour.empty()) {
      shown += change(colour);
      text.remove_prefix(colour.size());
      continue;
    }
    const std::string_view rest = text.substr(0, text.find('\x1b', 1));
    shown += printable(rest, true);
    text.remove_prefix(rest.size());
  }
  return shown;
}

nlohmann::ordered_json error_document(const Error& error) {
  nlohmann::ordered_json details{{"kind", to_string(error.kind())}, {"message", error.message()}};
  if (error.place()) {
    details["file"] = error.place()->file;
    details["line"] = error.place()->line;
    details["column"] = error.place()->column;
  }
  details["help"] = error.help();
  return details;
}

}  // namespace

Error output_error(int reason) {
  return {ErrorKind::execution, reason == EPIPE ? reader_is_gone : output_is_gone};
}

Console::Console(std::string command, CommonOptions options)
    : command_(std::move(command)),
      options_(std::move(options)),
      output_is_terminal_(is_terminal(STDOUT_FILENO)),
      error_is_terminal_(is_terminal(STDERR_FILENO)) {}

bool Console::color() const {
  if (options_.color == "always") return true;
  if (options_.color == "never" || options_.json) return false;
  const char* no_color = std::getenv("NO_COLOR");
  return output_is_terminal_ && (no_color == nullptr || *no_color == '\0');
}

int Console::width() const {
  winsize size{};
  if (output_is_terminal_ && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40)
    return size.ws_col;
  return 100;
}

DrawOptions Console::drawing() const {
  return {.width = width(), .unicode = unicode(), .color = color()};
}

void Console::input(std::string path, std::string hash) {
  inputs_.push_back({std::move(path), std::move(hash)});
}

/// What names of others hold must not act on a terminal, whoever passes it on to one: only our own
/// colours do.
void Console::print(std::string_view text) {
  if (options_.json || file_on_output_) return;
  const auto left_out = [](std::string_view) { return std::string_view(); };
  const std::string plain = color() ? with_colours(text, left_out) : printable(text, true);
  if (!options_.output.empty()) printed_ += plain;
  if (options_.quiet) return;
  Progress::clear_shown();
  write_output(color() ? with_colours(text, [](std::string_view colour) { return colour; })
                       : plain);
}

/// `stagecraft plan … -o FILE | head -n 1` is to write FILE all the same.
void Console::write_output(std::string_view text) {
  if (!has_reader_) return;
  try {
    write(stdout, text);
  } catch (const Error& error) {
    if (error.message() != reader_is_gone || options_.output.empty()) throw;
    has_reader_ = false;
  }
}

void Console::note(std::string text) {
  const bool shown = options_.verbose > 0 || notes_.size() < notes_shown;
  if (!options_.quiet && !options_.json && shown) {
    Progress::clear_shown();
    write(stderr, concat("note: ", printable(text, false), "\n"));
  }
  notes_.push_back(std::move(text));
}

void Console::warn(std::string_view text) {
  Progress::clear_shown();
  write(stderr, concat("warning: ", printable(text, false), "\n"));
}

void Console::warn_if_unseen(std::string_view what) {
  if (!options_.quiet || options_.json || !options_.output.empty()) return;
  warn(concat("with -q and without -o FILE ", what,
              " is neither shown nor written; only the exit code tells whether there is one"));
}

bool Console::artefact(std::string_view content) {
  if (options_.output.empty()) return false;
  if (options_.output == "-") {
    Progress::clear_shown();
    file_on_output_ = true;
    write(stdout, content);
    return true;
  }
  write_file(options_.output, content);
  has_artefact_ = true;
  return true;
}

void Console::write_printed() {
  const std::string text = std::exchange(printed_, {});
  const bool is_for_file = !options_.output.empty() && options_.output != "-" && !has_artefact_;
  if (is_for_file && !text.empty()) write_file(options_.output, text);
}

void Console::result(const nlohmann::ordered_json& result) {
  if (!options_.json || file_on_output_) return;
  Progress::clear_shown();
  nlohmann::ordered_json document{
      {"format", result_format}, {"version", build_info::version}, {"command", command_}};
  document["inputs"] = nlohmann::ordered_json::array();
  for (const Input& input : inputs_)
    document["inputs"].push_back({{"path", input.path}, {"xxh3", input.hash}});
  document["result"] = result;
  document["notes"] = notes_;
  printed_ = to_text(document);
  write_output(printed_);
}

int Console::error(const Error& error, const nlohmann::ordered_json* result) {
  Progress::clear_shown();
  if (error.message() == reader_is_gone) return exit_without_reader;
  write(stderr, concat("error: ", printable(error.what(), false), "\n"));
  for (const std::string& help : error.help())
    write(stderr, concat("  help: ", printable(help, false), "\n"));
  // Where standard output takes no more, standard error has said it.
  if (options_.json) static_cast<void>(is_written(stdout, document_of(error, result)));
  return exit_code(error.kind());
}

std::string Console::document_of(const Error& error, const nlohmann::ordered_json* result) const {
  nlohmann::ordered_json document{
      {"format", result_format}, {"version", build_info::version}, {"command", command_}};
  if (result != nullptr) document["result"] = *result;
  document["error"] = error_document(error);
  return to_text(document);
}

}  // namespace stagecraft
