#include "profiles/importers/aceso_database.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "profiles/error.hpp"
#include "profiles/importers/figures.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view header =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,"
    "fwd_reserved,bwd_reserved";
/// Microseconds or MiB of one operator; above, a file has a slip in it.
constexpr double most_figure = 1e8;

struct PublishedModel {
  std::string_view family, size;
  int layers;
};
/// Layers are in Aceso's code, not in its tables; a resnet's table has every operator.
constexpr std::array published_models{
    PublishedModel{"gpt", "350M", 24}, PublishedModel{"gpt", "1_3B", 24},
    PublishedModel{"gpt", "2_6B", 32}, PublishedModel{"gpt", "6_7B", 32},
    PublishedModel{"gpt", "7B", 32},   PublishedModel{"gpt", "13B", 40},
    PublishedModel{"gpt", "22B", 48},  PublishedModel{"t5", "770M", 24},
    PublishedModel{"t5", "3B", 24},    PublishedModel{"t5", "6B", 24},
    PublishedModel{"t5", "11B", 24},
};

/// Weights of fp16 have a master copy and two moments of fp32; resnets are fp32 and have two
/// moments.
struct PublishedFamily {
  std::string_view name;
  int operators;  ///< of a table; 0: any number
  double optimizer_ratio;
};
constexpr std::array published_families{PublishedFamily{"gpt", 16, 6}, PublishedFamily{"t5", 39, 6},
                                        PublishedFamily{"resnet", 0, 2}};

struct TableName {
  std::string family, size;
  int microbatch = 0, tensor_parallel = 0, algorithm = 0;
  bool is_model_of(const TableName& other) const {
    return family == other.family && size == other.size && algorithm == other.algorithm;
  }
};

std::optional<int> number_after(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return {};
  text.remove_prefix(prefix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number && value >= 0 && value <= 1'000'000 ? std::optional(value) : std::nullopt;
}

/// "gpt_1_3B_mbs1_tp2_algo0.csv", taken apart.
std::optional<TableName> parse_name(const std::filesystem::path& file) {
  if (file.extension() != ".csv") return {};
  std::vector<std::string> parts = split(file.stem().string(), '_');
  constexpr std::size_t fewest = 5;
  if (parts.size() < fewest) return {};
  const std::size_t end = parts.size() - 3;
  const std::optional<int> microbatch = number_after(parts[end], "mbs");
  const std::optional<int> degree = number_after(parts[end + 1], "tp");
  const std::optional<int> algorithm = number_after(parts[end + 2], "algo");
  if (!microbatch || !degree || !algorithm || *microbatch < 1 || *degree < 1) return {};
  TableName name{parts.front(), parts[1], *microbatch, *degree, *algorithm};
  for (std::size_t i = 2; i < end; ++i) name.size += "_" + parts[i];
  return name;
}

struct Place {
  const std::string& file;
  int line = 0;
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file, line, 1});
  }
};

double read_number(const std::string& text, const Place& place, std::string_view what) {
  const std::string word = trim(text);
  double value = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc{} && end == word.data() + word.size();
  if (!is_number || !(value >= 0) || value > most_figure) {
    place.fail(
        concat(what, ": expected a number from 0 to ", most_figure, ", found \"", word, "\""));
  }
  return value;
}

/// The operators of a table, and their names.
struct NamedTable {
  std::vector<std::string> names;
  std::vector<AcesoOperator> operators;
};

void read_row(NamedTable& table, const std::string& text, const Place& place) {
  const std::vector<std::string> columns = split(std::string(header), ',');
  const std::vector<std::string> cells = split(text, ',');
  if (cells.size() != columns.size()) {
    place.fail(
        concat("expected ", columns.size(), " columns (", header, "), found ", cells.size()));
  }
  const auto figure = [&](std::size_t i) { return read_number(cells[i], place, columns[i]); };
  table.names.push_back(trim(cells[0]));
  table.operators.push_back({.forward = figure(1),
                             .backward = figure(2),
                             .input = figure(3),
                             .output = figure(4),
                             .weights = figure(5),
                             .activations = figure(6),
                             .forward_reserved = figure(7),
                             .backward_reserved = figure(8)});
}

NamedTable read_table(std::string_view content, const std::string& file) {
  NamedTable table;
  std::set<std::string> seen;
  int line = 0;
  for (const std::string& raw : split(content, '\n')) {
    const std::string text = trim(raw);
    const Place place{file, ++line};
    if (line == 1 && text != header)
      place.fail(concat("expected the columns ", header, ", found \"", text.substr(0, 120), "\""));
    if (line == 1 || text.empty()) continue;
    read_row(table, text, place);
    if (!seen.insert(table.names.back()).second)
      place.fail(concat("operator \"", table.names.back(), "\" is listed twice"));
    if (table.names.size() > most_foreign_nodes)
      place.fail(concat("more than ", most_foreign_nodes, " operators"));
  }
  if (table.names.empty()) Place{file, line}.fail("expected an operator, found none");
  return table;
}

/// GB/s for 1, 2, 4, … MB; nothing if there is no such file.
std::vector<double> read_bandwidths(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  const std::string file = path.string();
  const std::vector<std::string> lines = split(trim(read_file(path)), '\n');
  if (lines.size() != 2)
    Place{file, 1}.fail("expected a line of message sizes in MB and a line of GB/s");
  const std::vector<std::string> sizes = split(lines[0], ',');
  const std::vector<std::string> rates = split(lines[1], ',');
  std::vector<double> bandwidths;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double size = std::ldexp(1.0, static_cast<int>(i));
    if (sizes.size() != rates.size() || read_number(sizes[i], {file, 1}, "message size") != size)
      Place{file, 1}.fail("expected the message sizes 1, 2, 4, … MB, one for each GB/s");
    bandwidths.push_back(read_number(rates[i], {file, 2}, "GB/s"));
    if (bandwidths.back() == 0) Place{file, 2}.fail("expected GB/s above 0, found 0");
  }
  return bandwidths;
}

/// Other tables of the same model in the folder.
std::vector<std::pair<TableName, std::filesystem::path>> siblings(
    const TableName& name, const std::filesystem::path& folder) {
  std::vector<std::pair<TableName, std::filesystem::path>> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::optional<TableName> other = parse_name(entry.path().filename());
    if (!other || !other->is_model_of(name) || !entry.is_regular_file(error)) continue;
    const bool is_same =
        other->microbatch == name.microbatch && other->tensor_parallel == name.tensor_parallel;
    if (!is_same) found.emplace_back(*other, entry.path());
  }
  return found;
}

TableName name_of(const std::string& file) {
  const std::optional<TableName> name = parse_name(std::filesystem::path(file).filename());
  if (!name || name->algorithm != 0) {
    Place{file, 1}.fail(
        "expected a file name MODEL_SIZE_mbsSAMPLES_tpDEGREE_algo0.csv, which tells what its "
        "times are of");
  }
  return *name;
}

int layers_of(const TableName& name, const std::string& file) {
  if (name.family == "resnet") return 0;
  std::string known;
  for (const PublishedModel& model : published_models) {
    if (model.family == name.family && model.size == name.size) return model.layers;
    known += concat(" ", model.family, "_", model.size);
  }
  Place{file, 1}.fail(concat("how many layers ", name.family, "_", name.size,
                             " has is in no table; expected one of", known, " or a resnet"));
}

/// Only of families in the table; `layers_of` has refused others.
const PublishedFamily& family_of(const TableName& name) {
  return *std::find_if(published_families.begin(), published_families.end(),
                       [&](const PublishedFamily& family) { return family.name == name.family; });
}

void check_operators(const TableName& name, std::size_t count, const std::string& file) {
  const int expected = family_of(name).operators;
  if (expected != 0 && count != static_cast<std::size_t>(expected)) {
    Place{file, 1}.fail(
        concat("expected the ", expected, " operators of ", name.family, ", found ", count));
  }
}

void append(std::vector<int>& chain, int first, int end, int times) {
  for (int i = 0; i < times; ++i) {
    for (int row = first; row < end; ++row) chain.push_back(row);
  }
}

}  // namespace

std::vector<int> aceso_chain(const std::string& family, int operators, int layers) {
  constexpr int encoder = 14;
  constexpr int decoder = 37;
  std::vector<int> chain;
  if (family == "resnet") {
    append(chain, 0, operators, 1);
    return chain;
  }
  append(chain, 0, 1, 1);
  append(chain, 1, encoder, layers);
  if (family == "t5") {
    append(chain, encoder, encoder + 2, 1);
    append(chain, encoder + 2, decoder, layers);
    append(chain, decoder, operators, 1);
  } else {
    append(chain, encoder, operators, 1);
  }
  return chain;
}

AcesoDatabase read_aceso_database(std::string_view content, const std::string& file) {
  const TableName name = name_of(file);
  const NamedTable first = read_table(content, file);
  const int layers = layers_of(name, file);
  check_operators(name, first.names.size(), file);
  AcesoDatabase database{.family = name.family, .size = name.size, .names = first.names};
  database.optimizer_ratio = family_of(name).optimizer_ratio;
  database.chain = aceso_chain(name.family, static_cast<int>(first.names.size()), layers);
  database.tables.push_back({name.microbatch, name.tensor_parallel, first.operators});
  const std::filesystem::path parent = std::filesystem::path(file).parent_path();
  const std::filesystem::path folder = parent.empty() ? "." : parent;
  for (const auto& [other, path] : siblings(name, folder)) {
    const NamedTable table = read_table(read_file(path), path.string());
    if (table.names != first.names)
      Place{path.string(), 1}.fail(concat("expected the same operators as in ", file));
    database.tables.push_back({other.microbatch, other.tensor_parallel, table.operators});
  }
  std::sort(database.tables.begin(), database.tables.end(), [](const auto& a, const auto& b) {
    return std::pair(a.microbatch, a.tensor_parallel) < std::pair(b.microbatch, b.tensor_parallel);
  });
  database.between_devices = read_bandwidths(folder / "p2p_intra_node.csv");
  database.between_nodes = read_bandwidths(folder / "p2p_inter_node.csv");
  if (database.between_nodes.empty()) database.between_nodes = database.between_devices;
  return database;
}

}  // namespace stagecraft
