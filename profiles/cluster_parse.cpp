// Clusters by name, and by the expression [COUNTx]…DEVICE[@LINK[,LINK…]]. DEVICE is a device kind
// or a built-in cluster: "4xdgx-a100" is four of them, joined by the network they come with.

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <filesystem>
#include <utility>

#include "profiles/cluster.hpp"
#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/missing_file.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct Box {
  std::string_view name;
  std::string_view kind;
  int devices;
};

/// Boxes with the links of their device kind.
constexpr std::array boxes{
    Box{"dgx-a100", "a100-80gb", 8}, Box{"hgx-h100", "h100", 8},
    Box{"hgx-h200", "h200", 8},      Box{"hgx-b200", "b200", 8},
    Box{"gb200-nvl72", "gb200", 72}, Box{"v100-pcie-10gbe", "v100-pcie", 4},
    Box{"hgx-b300", "b300", 8},      Box{"gb300-nvl72", "gb300", 72},
    Box{"laptop", "cpu", 4},
};

const Box* find_box(std::string_view name) {
  for (const Box& box : boxes) {
    if (box.name == name) return &box;
  }
  return nullptr;
}

/// Names of devices and clusters that stand for themselves.
std::vector<std::string> known_names() {
  std::vector<std::string> known = builtin_device_kinds();
  for (const std::string& cluster : builtin_clusters()) known.push_back(cluster);
  return known;
}

/// Reads the expression from left to right and remembers how far it came.
class Expression {
 public:
  explicit Expression(std::string_view text) : text_(text) {}

  Cluster parse() {
    read_counts();
    read_device();
    read_links();
    std::size_t devices = 1;
    for (const Level& level : cluster_.levels) devices *= static_cast<std::size_t>(level.count);
    cluster_.devices.assign(devices, 0);
    cluster_.name = std::string(text_);
    return cluster_;
  }

 private:
  /// "at character 3" counts from 1.
  [[noreturn]] void fail_at(std::size_t at, const std::string& message) const {
    fail_usage("cluster \"", text_, "\", character ", at + 1, ": ", message);
  }

  /// Takes "16x" from the front while there is such a count.
  void read_counts() {
    std::int64_t devices = 1;
    for (;;) {
      const std::size_t start = at_;
      std::size_t end = at_ + (text_.substr(at_).starts_with('-') ? 1 : 0);
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      if (end == start || end >= text_.size() || text_[end] != 'x') return;
      const std::string_view digits = text_.substr(start, end - start);
      int count = 0;
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), count);
      if (read.ec == std::errc{} && count > 0) devices *= count;
      if (read.ec == std::errc::result_out_of_range || devices > most_devices) {
        fail_at(start, concat("more than ", most_devices, " devices"));
      }
      if (count < 1) fail_at(start, concat("expected a count of at least 1, found ", digits));
      cluster_.levels.push_back({.count = count, .link = {}});
      at_ = end + 1;
    }
  }

  void read_device() {
    const std::size_t end = std::min(text_.find('@', at_), text_.size());
    const std::string_view name = text_.substr(at_, end - at_);
    if (name.empty()) fail_at(at_, "expected a device kind, such as h100");
    const Box* box = find_box(name);
    const std::vector<std::string> known = builtin_device_kinds();
    const std::string_view device = box != nullptr ? box->kind : name;
    const bool is_file = name.ends_with(".json");
    const std::string kind_name =
        is_file ? std::string(device) : builtin_device_kind_called(device);
    if (!is_file && std::ranges::find(known, kind_name) == known.end()) refuse_device(name);
    const KnownDevice kind = device_named(kind_name);
    if (box != nullptr) cluster_.levels.push_back({.count = box->devices, .link = {}});
    if (cluster_.levels.empty()) cluster_.levels.push_back({});
    if (device_total() > most_devices) fail_at(0, concat("more than ", most_devices, " devices"));
    set_own_links(kind.links);
    cluster_.kinds = {kind.kind};
    at_ = end;
  }

  std::int64_t device_total() const {
    std::int64_t total = 1;
    for (const Level& level : cluster_.levels) total *= level.count;
    return total;
  }

  [[noreturn]] void refuse_device(std::string_view name) const {
    const std::vector<std::string> known = known_names();
    const std::string suggestion = closest(name, known);
    std::string message = concat("unknown device \"", name, "\"; known devices and clusters:");
    for (const std::string& word : known) message += " " + word;
    if (!suggestion.empty()) message += concat("; did you mean \"", suggestion, "\"?");
    if (name.find_first_of(",+") != std::string_view::npos) {
      message +=
          "; devices of several kinds are a file's: `stagecraft cluster show 2x8xh100 -o "
          "my.cluster.json` writes one to edit";
    }
    fail_at(at_, message);
  }

  /// The innermost level is a box if it is small enough to be one; everything else is a network.
  void set_own_links(const KindLinks& links) {
    for (Level& level : cluster_.levels) {
      level.link = links.between;
      level.rails = links.rails;
    }
    Level& innermost = cluster_.levels.back();
    innermost.rails = 1;
    if (innermost.count <= links.box) innermost.link = links.inside;
  }

  /// "@LINK,LINK": for the outermost levels, in order; an empty one keeps the kind's own.
  void read_links() {
    if (at_ == text_.size()) return;
    ++at_;
    const std::vector<std::string> links = split(text_.substr(at_), ',');
    if (links.empty()) fail_at(at_, "expected a link, such as 400Gb/s, after @");
    for (std::size_t level = 0; level < links.size(); ++level) {
      if (level >= cluster_.levels.size()) {
        fail_at(at_, concat("there are ", links.size(), " links, but only ", cluster_.levels.size(),
                            cluster_.levels.size() == 1 ? " level" : " levels", " of devices"));
      }
      if (!links[level].empty()) read_link(links[level], cluster_.levels[level]);
      at_ += links[level].size() + 1;
    }
  }

  /// BANDWIDTH[:LATENCY][:collective=BANDWIDTH][:rails=N][:oversubscription=X]. A bandwidth that is
  /// given holds for collectives as well, unless they have their own.
  void read_link(std::string_view text, Level& level) const {
    const std::vector<std::string> words = split(text, ':');
    try {
      level.link.point_to_point = parse_bandwidth(words.front());
      level.link.collective = level.link.point_to_point;
      for (std::size_t i = 1; i < words.size(); ++i) read_word(words[i], level);
    } catch (const Error& error) {
      fail_at(at_, error.message());
    }
  }

  static void read_word(const std::string& word, Level& level) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos) {
      level.link.latency = parse_duration(word);
      return;
    }
    const std::string value = word.substr(equals + 1);
    if (key == "collective") {
      level.link.collective = parse_bandwidth(value);
    } else if (key == "rails") {
      level.rails = number_in<int>(key, value, 1, most_devices);
    } else if (key == "oversubscription") {
      level.oversubscription = number_in<double>(key, value, 1, 1000);
    } else {
      fail_unknown("link word", key, {"collective", "rails", "oversubscription"});
    }
  }

  template <class Number>
  static Number number_in(const std::string& key, const std::string& value, Number least,
                          Number most) {
    Number number{};
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, number);
    if (read.ec == std::errc{} && read.ptr == end && number >= least && number <= most) {
      return number;
    }
    fail(key, ": expected a number from ", least, " to ", most, ", found \"", value, "\"");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Cluster cluster_;
};

/// A cluster argument that can only be meant as a file.
bool names_a_cluster_file(std::string_view argument) {
  return argument == "-" || argument.ends_with(".json") ||
         (argument.find('/') != std::string_view::npos &&
          argument.find('@') == std::string_view::npos);
}

/// Of a file that is not there: the devices or the cluster that are called so, or nearly so, or
/// what may be.
std::vector<std::string> instead_of_cluster_file(std::string_view file) {
  const std::string stem = std::filesystem::path(file).stem().string();
  std::vector<std::string> known = known_names();
  try {
    parse_cluster(stem);
    known.push_back(stem);
  } catch (const Error&) {
    // It names no devices.
  }
  const std::string near = nearest_name(file, known);
  if (!near.empty()) return {near};
  return {
      "name devices, such as 4x8xh100@400Gb/s, or write their file with "
      "`stagecraft cluster show 4x8xh100@400Gb/s -o FILE`"};
}

Cluster read_cluster_file(std::string_view argument) {
  require_file(argument, instead_of_cluster_file(argument));
  const Json json = Json::read(std::filesystem::path(argument));
  Cluster cluster = read_cluster(json);
  try {
    validate(cluster);
  } catch (const Error& error) {
    throw Error(ErrorKind::input, error.message(), SourcePlace{json.file(), 0, 0}, error.help());
  }
  return cluster;
}

/// "8xmine.json", "2x4xmine.json": so many devices of the kind in a file that is there, unless a
/// file is called so.
bool counts_a_kind_of_a_file(std::string_view argument) {
  const auto exists = [](std::string_view name) {
    std::error_code ignored;
    return std::filesystem::exists(std::filesystem::path(name), ignored);
  };
  std::string_view rest = argument;
  for (;;) {
    const std::size_t digits = rest.find_first_not_of("0123456789");
    if (digits == 0 || digits == std::string_view::npos || rest[digits] != 'x') break;
    rest.remove_prefix(digits + 1);
  }
  return rest.size() < argument.size() && exists(rest) && !exists(argument);
}

/// Where the innermost count of an expression begins, and where the name behind it does: 4 and 7 of
/// "2x4x16xh100"; 0 and 0 where there is no count.
std::pair<std::size_t, std::size_t> counts_end(std::string_view expression) {
  std::size_t name = 0, last = 0;
  for (std::size_t end = 0; end < expression.size(); ++end) {
    if (expression[end] >= '0' && expression[end] <= '9') continue;
    if (expression[end] != 'x' || end == name) break;
    last = name;
    name = end + 1;
  }
  return {last, name};
}

/// 0 where there is none.
int innermost_count(std::string_view expression) {
  const auto [last, name] = counts_end(expression);
  int count = 0;
  std::from_chars(expression.data() + last, expression.data() + name, count);
  return count;
}

std::string error_of_unknown_kind(std::string_view name, const std::vector<std::string>& known) {
  try {
    fail_unknown("device kind", name, known);
  } catch (const Error& error) {
    return error.message();
  }
}

}  // namespace

KnownDevice device_named(std::string_view given) {
  const std::string name = builtin_device_kind_called(given);
  const std::vector<std::string> known = builtin_device_kinds();
  if (std::ranges::find(known, name) != known.end())
    return {builtin_device_kind(name), builtin_links(name), builtin_fabric(name)};
  std::error_code ignored;
  const bool is_file = names_a_cluster_file(name) ||
                       std::filesystem::is_regular_file(std::filesystem::path(name), ignored);
  if (!is_file) {
    throw Error(ErrorKind::usage, error_of_unknown_kind(name, known), {},
                {"a kind of your own is the only kind of a cluster's file: --device FILE"});
  }
  const Cluster cluster = read_cluster_file(name);
  if (cluster.kinds.size() != 1) {
    throw Error(ErrorKind::input,
                concat("expected one kind of device, found ", cluster.kinds.size()),
                SourcePlace{name, 0, 0});
  }
  if (cluster.levels.empty()) return {.kind = cluster.kinds.front(), .links = {}, .fabric = {}};
  const Level& outermost = cluster.levels.front();
  return {.kind = cluster.kinds.front(),
          .links = {.inside = cluster.levels.back().link,
                    .between = outermost.link,
                    .rails = outermost.rails,
                    .box = cluster.levels.back().count},
          .fabric = {}};
}

std::vector<std::string> builtin_clusters() {
  std::vector<std::string> names;
  for (const Box& box : boxes) names.emplace_back(box.name);
  return names;
}

Cluster parse_cluster(std::string_view text) {
  if (trim(text).empty()) fail_usage("cluster: expected a name or an expression such as 8xh100");
  return Expression(text).parse();
}

Cluster load_cluster(std::string_view argument) {
  if (names_a_cluster_file(argument) && !counts_a_kind_of_a_file(argument))
    return read_cluster_file(argument);
  try {
    return parse_cluster(argument);
  } catch (const Error&) {
    std::error_code ignored;
    if (!std::filesystem::exists(std::filesystem::path(argument), ignored)) throw;
  }
  return read_cluster_file(argument);
}

std::optional<std::string> with_narrower_boxes(std::string_view text) {
  const std::string_view expression = text.substr(0, text.find('@'));
  const auto [last, name] = counts_end(expression);
  const Box* box = find_box(expression.substr(name));
  if (box == nullptr && name == 0) return {};
  const std::size_t outer = box != nullptr ? name : last;
  const int count = box != nullptr ? box->devices : innermost_count(expression);
  const unsigned narrower = std::bit_floor(static_cast<unsigned>(std::max(count, 1)));
  constexpr int few = 6;
  if (count < few || static_cast<unsigned>(count) == narrower) return {};
  const std::string_view kind = box != nullptr ? box->kind : expression.substr(name);
  // More are machines on a network.
  if (box == nullptr && count > device_named(builtin_device_kind_called(kind)).links.box) return {};
  return concat(text.substr(0, outer), narrower, "x", kind, text.substr(expression.size()));
}

std::string why_single_devices(std::string_view text) {
  const auto [last, name] = counts_end(text);
  const std::string kind = builtin_device_kind_called(text.substr(name));
  const std::vector<std::string> known = builtin_device_kinds();
  if (name == 0 || std::ranges::find(known, kind) == known.end()) return "";
  const KindLinks links = builtin_links(kind);
  const int count = innermost_count(text), box = links.box;
  if (box < 2 || count <= box || links.inside == links.between) return "";
  const int devices = device_count(parse_cluster(text));
  const std::string_view outer = text.substr(0, last), machines = box > 16 ? "racks" : "machines";
  const std::string note =
      concat(text, " is ", devices, " machines of one device each, joined by their network; ");
  const std::string instead = concat(outer, count / box, "x", box, "x", kind);
  if (count % box != 0) return note + concat(machines, " of ", box, " are written as ", instead);
  return note + concat(instead, " is ", devices / box, " ", machines, " of ", box);
}

}  // namespace stagecraft
