// A configuration of torchtitan 0.3 is a function of no arguments:
//
//   def plan():
//       config = llama3_8b()
//       config.parallelism = ParallelismConfig(pipeline_parallel_degree=4, …)
//       config.training.local_batch_size = 8
//       config.activation_checkpoint = FullAC.Config()
//       return config
//
// or returns Trainer.Config(…, training=TrainingConfig(…)), as torchtitan's own do. Only the words
// of these are looked at; what is computed has its text and no value.

#include "planner/interop/importers/torchtitan/python_settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct PythonToken {
  enum class Kind { name, number, string, mark, end };
  Kind kind = Kind::end;
  std::string text;  ///< of a string: what is in its quotes
  int line = 0;
  int column = 0;
  std::size_t begin = 0;  ///< in the file
  std::size_t end = 0;
};

bool is_python_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

class PythonTokens {
 public:
  PythonTokens(std::string_view content, const std::string& file) : text_(content), file_(file) {}

  std::vector<PythonToken> read() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') step();
      } else if (c == '"' || c == '\'') {
        read_string(at_);
      } else if (is_python_letter(c)) {
        read_word();
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\') {
        step();
      } else {
        const PythonToken begin = here(PythonToken::Kind::mark);
        step();
        add(begin, std::string(1, c));
      }
    }
    tokens_.push_back(here(PythonToken::Kind::end));
    return std::move(tokens_);
  }

 private:
  void step() {
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
    }
    ++at_;
  }
  PythonToken here(PythonToken::Kind kind) const {
    return {.kind = kind,
            .text = {},
            .line = line_,
            .column = static_cast<int>(at_ - line_begin_) + 1,
            .begin = at_,
            .end = at_};
  }
  void add(PythonToken token, std::string text) {
    token.text = std::move(text);
    token.end = at_;
    tokens_.push_back(std::move(token));
  }

  void read_word() {
    const std::size_t begin = at_;
    const bool is_number = text_[at_] >= '0' && text_[at_] <= '9';
    const PythonToken token = here(is_number ? PythonToken::Kind::number : PythonToken::Kind::name);
    while (at_ < text_.size() && (is_python_letter(text_[at_]) || (is_number && text_[at_] == '.')))
      step();
    const std::string word(text_.substr(begin, at_ - begin));
    const bool is_prefix = !is_number && word.size() <= 2 && at_ < text_.size() &&
                           (text_[at_] == '"' || text_[at_] == '\'') &&
                           word.find_first_not_of("rRbBfFuU") == std::string::npos;
    if (is_prefix) return read_string(begin);
    add(token, word);
  }

  void read_string(std::size_t begin) {
    PythonToken token = here(PythonToken::Kind::string);
    token.begin = begin;
    const char quote = text_[at_];
    const std::string three(3, quote);
    const std::string mark = text_.substr(at_).starts_with(three) ? three : std::string(1, quote);
    for (std::size_t i = 0; i < mark.size(); ++i) step();
    std::string inside;
    while (at_ < text_.size() && !text_.substr(at_).starts_with(mark)) {
      if (mark.size() == 1 && text_[at_] == '\n') break;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) step();
      inside += text_[at_];
      step();
    }
    if (!text_.substr(at_).starts_with(mark)) {
      throw Error(ErrorKind::input, "no Python: a string has no end",
                  SourcePlace{file_, token.line, token.column});
    }
    for (std::size_t i = 0; i < mark.size(); ++i) step();
    add(token, inside);
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<PythonToken> tokens_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
};

class PythonReader {
 public:
  PythonReader(std::string_view content, const std::string& file)
      : content_(content), file_(file), tokens_(PythonTokens(content, file).read()) {}

  std::vector<TomlSetting> read(std::string_view function) {
    const auto [begin, end] = range_of(function);
    read_variables();
    for (std::size_t i = begin; i < end; ++i) read_statement(i);
    name_model(begin, end);
    return std::move(settings_);
  }

 private:
  using Kind = PythonToken::Kind;

  const PythonToken& at(std::size_t i) const { return tokens_[std::min(i, tokens_.size() - 1)]; }
  bool is(std::size_t i, std::string_view text) const {
    return at(i).text == text && (at(i).kind == Kind::name || at(i).kind == Kind::mark);
  }
  SourcePlace place(std::size_t i) const { return {file_, at(i).line, at(i).column}; }

  static bool is_settings_class(const std::string& name) {
    return name == "ParallelismConfig" || name == "TrainingConfig";
  }

  /// Behind the bracket that opens at `i`, and all in it.
  std::size_t behind_bracket(std::size_t i) const {
    int depth = 0;
    for (; at(i).kind != Kind::end; ++i) {
      if (at(i).kind != Kind::mark) continue;
      if (is(i, "(") || is(i, "[") || is(i, "{")) ++depth;
      if (is(i, ")") || is(i, "]") || is(i, "}")) --depth;
      if (depth == 0) return i + 1;
    }
    return i;
  }

  struct Function {
    std::string name;
    std::size_t begin = 0, end = 0;
    bool configures = false;
  };

  std::vector<Function> functions() const {
    std::vector<Function> all;
    for (std::size_t i = 0; at(i).kind != Kind::end; ++i) {
      const bool is_outer = at(i).column == 1 && at(i).kind == Kind::name;
      if (is_outer && !all.empty() && all.back().end == 0) all.back().end = i;
      if (is_outer && is(i, "def"))
        all.push_back({.name = at(i + 1).text, .begin = i, .end = 0, .configures = false});
      const bool is_setting =
          (is_settings_class(at(i).text) && is(i + 1, "(")) || is_member(i) || is(i, "Trainer");
      if (is_setting && !all.empty() && all.back().end == 0) all.back().configures = true;
    }
    if (!all.empty() && all.back().end == 0) all.back().end = tokens_.size() - 1;
    return all;
  }

  std::pair<std::size_t, std::size_t> range_of(std::string_view function) const {
    std::vector<std::string> names;
    const std::vector<Function> all = functions();
    const Function* found = nullptr;
    for (const Function& one : all) {
      if (!one.configures) continue;
      names.push_back(one.name);
      if (function.empty() || one.name == function) found = &one;
    }
    if (names.empty()) return {0, tokens_.size() - 1};
    if (found == nullptr) {
      throw Error(
          ErrorKind::input,
          concat("the file has no configuration \"", function, "\"; it has ", join_words(names)),
          SourcePlace{file_, 1, 1});
    }
    if (function.empty() && names.size() > 1) {
      throw Error(ErrorKind::input,
                  concat("the file has ", names.size(), " configurations: ", join_words(names)),
                  SourcePlace{file_, 1, 1},
                  {"import the launch line that says which one with --config NAME, or keep the one "
                   "that is meant"});
    }
    return {found->begin, found->end};
  }

  /// `….training.NAME =`: i is at the first point.
  bool is_member(std::size_t i) const {
    return is(i, ".") && (is(i + 1, "training") || is(i + 1, "parallelism")) && is(i + 2, ".") &&
           at(i + 3).kind == Kind::name && is(i + 4, "=") && !is(i + 5, "=");
  }

  /// Of the module: `NAME = literal`, and `A, B = literal, literal`.
  void read_variables() {
    for (std::size_t i = 0; at(i).kind != Kind::end; ++i) {
      if (at(i).column != 1 || at(i).kind != Kind::name) continue;
      std::vector<std::string> names{at(i).text};
      std::size_t next = i + 1;
      for (; is(next, ",") && at(next + 1).kind == Kind::name; next += 2)
        names.push_back(at(next + 1).text);
      if (!is(next, "=") || is(next + 1, "=")) continue;
      ++next;
      for (const std::string& name : names) {
        const std::size_t begin = next;
        const TomlValue value = read_value(next, false);
        variables_[name] = setting_at("", value, begin, next);
        if (!is(next, ",")) break;
        ++next;
      }
    }
  }

  TomlSetting setting_at(std::string path, TomlValue value, std::size_t begin,
                         std::size_t end) const {
    const std::size_t last = end > begin ? end - 1 : begin;
    const std::string text(content_.substr(at(begin).begin, at(last).end - at(begin).begin));
    return {
        .path = std::move(path), .value = std::move(value), .text = text, .place = place(begin)};
  }

  /// Moves behind it, to what ends an argument in brackets, or else a statement.
  TomlValue read_value(std::size_t& i, bool in_brackets) const {
    const std::size_t begin = i;
    const int line = in_brackets ? INT32_MAX : at(i).line;
    const bool is_negative = is(i, "-");
    TomlValue value;
    std::size_t next = is_negative ? i + 1 : i;
    const PythonToken& token = at(next);
    if (token.kind == Kind::number) {
      value = number_of(token.text, is_negative);
      ++next;
    } else if (token.kind == Kind::string) {
      std::string text;
      for (; at(next).kind == Kind::string; ++next) text += at(next).text;
      value = text;
    } else if (is(next, "[")) {
      value = list_at(next);
      next = behind_bracket(next);
    } else if (token.kind == Kind::name) {
      if (token.text == "True" || token.text == "False") value = token.text == "True";
      const auto known = variables_.find(token.text);
      if (known != variables_.end()) value = known->second.value;
      ++next;
    }
    const bool is_whole = ends_value(next, line);
    for (i = next; !ends_value(i, line); ++i) {
      if (is(i, "(") || is(i, "[") || is(i, "{")) i = behind_bracket(i) - 1;
    }
    // A bracket that was closed before it was opened.
    if (i == begin && at(i).kind != Kind::end) ++i;
    return is_whole ? value : TomlValue{};
  }

  bool ends_value(std::size_t i, int line) const {
    if (at(i).kind == Kind::end || is(i, ",") || is(i, ")") || is(i, "]") || is(i, "}"))
      return true;
    return at(i).line > line;
  }

  static TomlValue number_of(std::string text, bool is_negative) {
    std::erase(text, '_');
    if (text.find_first_of(".eE") != std::string::npos) return {};
    std::int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault != std::errc{} || end != text.data() + text.size()) return {};
    return is_negative ? -number : number;
  }

  TomlValue list_at(std::size_t i) const {
    std::vector<std::string> words;
    std::vector<std::vector<std::string>> lists;
    const std::size_t end = behind_bracket(i) - 1;
    for (++i; i < end; ++i) {
      if (is(i, "[")) {
        const TomlValue inner = list_at(i);
        const auto* names = std::get_if<std::vector<std::string>>(&inner);
        if (names == nullptr) return {};
        lists.push_back(*names);
        i = behind_bracket(i) - 1;
      } else if (at(i).kind == Kind::string) {
        words.push_back(at(i).text);
      } else if (!is(i, ",")) {
        return {};
      }
    }
    if (lists.empty()) return words;
    return words.empty() ? TomlValue(lists) : TomlValue{};
  }

  void put(TomlSetting setting) {
    std::erase_if(settings_, [&](const TomlSetting& own) { return own.path == setting.path; });
    settings_.push_back(std::move(setting));
  }

  /// `NAME=value, …` of a class of settings.
  void read_arguments(std::size_t i, const std::string& table) {
    const std::size_t end = behind_bracket(i) - 1;
    for (++i; i < end;) {
      const std::size_t name = i;
      if (at(i).kind == Kind::name && is(i + 1, "=")) i += 2;
      const std::size_t begin = i;
      const TomlValue value = read_value(i, true);
      if (begin > name && !is(begin, "None")) {
        TomlSetting setting = setting_at(concat(table, ".", at(name).text), value, begin, i);
        setting.place = place(name);
        put(std::move(setting));
      }
      if (is(i, ",")) ++i;
    }
  }

  void read_statement(std::size_t i) {
    if (is_settings_class(at(i).text) && is(i + 1, "("))
      return read_arguments(i + 1, is(i, "TrainingConfig") ? "training" : "parallelism");
    if (is_member(i)) {
      std::size_t next = i + 5;
      const TomlValue value = read_value(next, false);
      TomlSetting setting =
          setting_at(concat(at(i + 1).text, ".", at(i + 3).text), value, i + 5, next);
      setting.place = place(i + 1);
      return put(std::move(setting));
    }
    if (is(i, "activation_checkpoint") && is(i + 1, "=") && !is(i + 2, "=")) read_checkpoints(i);
  }

  void read_checkpoints(std::size_t i) {
    struct Row {
      std::string_view name, mode;
    };
    constexpr std::array rows{Row{"None", "none"}, Row{"FullAC", "full"},
                              Row{"SelectiveAC", "selective"},
                              Row{"MemoryBudgetAC", "memory_budget"}};
    const auto row = std::ranges::find(rows, std::string_view(at(i + 2).text), &Row::name);
    TomlSetting mode{.path = "activation_checkpoint.mode",
                     .value = {},
                     .text = at(i + 2).text,
                     .place = place(i)};
    if (row != rows.end()) mode.value = std::string(row->mode);
    put(mode);
    if (row == rows.end() || row->mode != "selective") return;
    mode.path = "activation_checkpoint.selective_ac_option";
    mode.value = std::string("op");
    put(mode);
  }

  /// Which model it is: of our exporter's names, or `model_registry("8B")` in a module.
  void name_model(std::size_t begin, std::size_t end) {
    const auto take = [&](const char* variable, const char* path) {
      const auto found = variables_.find(variable);
      if (found == variables_.end()) return;
      TomlSetting setting = found->second;
      setting.path = path;
      put(std::move(setting));
    };
    take("MODULE", "model.name");
    take("FLAVOR", "model.flavor");
    const auto order = variables_.find("ORDER");
    if (order != variables_.end()) {
      TomlSetting setting = order->second;
      setting.path = "order";
      put(std::move(setting));
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (!is(i, "model_registry") || !is(i + 1, "(") || at(i + 2).kind != Kind::string) continue;
      std::size_t value = i + 2;
      const std::size_t first = value;
      put(setting_at("model.flavor", read_value(value, true), first, first + 1));
    }
  }

  std::string_view content_;
  const std::string& file_;
  std::vector<PythonToken> tokens_;
  std::map<std::string, TomlSetting> variables_;
  std::vector<TomlSetting> settings_;
};

}  // namespace

bool looks_like_titan_python(std::string_view content) {
  const auto has = [&](std::string_view words) {
    return content.find(words) != std::string_view::npos;
  };
  return (has("from torchtitan") || has("import torchtitan")) &&
         (has("ParallelismConfig(") || has("TrainingConfig(") || has(".parallelism.") ||
          has(".training."));
}

std::vector<TomlSetting> read_titan_python(std::string_view content, const std::string& file,
                                           std::string_view function) {
  return PythonReader(content, file).read(function);
}

}  // namespace stagecraft
