// Layer profiles beside Chimera and its successors (Li and Hoefler 2021; Shigangli/Chimera,
// prof/*_time_memory_*.csv): a row for each microbatch size, of one transformer block,
//
//   bs,time_f,time_b,time_kron,time_inv,time_prec,mem_param,mem_act,mem_peak_err,…
//   1,1.162,1.671,2.360,126.7,14.9,48.613,11.0,67.05,…
//
// in milliseconds and MiB; other columns are of a second-order optimizer and are passed over. The
// memory of parameters grows with the microbatch by the block's output; without it, it is the
// weights. How often the block repeats is in no file: it is taken from the model in the file's
// name. Backward is taken to be half for the input and half for the weights; there is no optimizer.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct Blocks {
  std::string_view name;
  int count;
};
/// Of T5 those of encoder and decoder together.
constexpr std::array models{Blocks{"bert-base", 12}, Blocks{"bert-large", 24},
                            Blocks{"opt-125m", 12},  Blocks{"opt-350m", 24},
                            Blocks{"t5-base", 24},   Blocks{"t5-large", 48}};

struct Row {
  std::int64_t microbatch = 0;
  double forward = 0, backward = 0;       ///< ms
  double parameters = 0, activation = 0;  ///< MiB
};

class Table {
 public:
  Table(std::string_view content, const std::string& file) : file_(file) {
    for (const std::string& line : split(content, '\n')) {
      ++line_;
      if (trim(line).empty()) continue;
      const std::vector<std::string> cells = split(trim(line), ',');
      if (columns_.empty()) {
        for (std::size_t i = 0; i < cells.size(); ++i) columns_[cells[i]] = i;
        width_ = cells.size();
      } else {
        read(cells);
      }
    }
    if (rows_.size() < 2) {
      fail_here("expected rows of at least two microbatch sizes, which tell weights from outputs");
    }
  }

  const std::vector<Row>& rows() const { return rows_; }

 private:
  [[noreturn]] void fail_here(const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, line_, 1},
                {"the columns bs, time_f, time_b, mem_param and mem_act are needed, a row for each "
                 "microbatch size, ascending"});
  }

  double number(const std::vector<std::string>& cells, const std::string& column) const {
    const auto found = columns_.find(column);
    if (found == columns_.end()) fail_here("the header has no column " + column);
    const std::string& word = cells[found->second];
    double value = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
    if (read.ec != std::errc{} || read.ptr != word.data() + word.size() || !std::isfinite(value) ||
        value < 0 || value > 1e9) {
      fail_here(concat(column, ": expected a number from 0 to 1e9, found \"", word, "\""));
    }
    return value;
  }

  void read(const std::vector<std::string>& cells) {
    if (cells.size() != width_)
      fail_here(concat("expected ", width_, " cells, found ", cells.size()));
    Row row{.microbatch = std::llround(number(cells, "bs")),
            .forward = number(cells, "time_f"),
            .backward = number(cells, "time_b"),
            .parameters = number(cells, "mem_param"),
            .activation = number(cells, "mem_act")};
    const std::int64_t before = rows_.empty() ? 0 : rows_.back().microbatch;
    if (row.microbatch <= before)
      fail_here(concat("expected a microbatch above ", before, ", found ", row.microbatch));
    rows_.push_back(row);
  }

  std::string file_;
  int line_ = 0;
  std::size_t width_ = 0;
  std::map<std::string, std::size_t> columns_;
  std::vector<Row> rows_;
};

Bytes mebibytes(double amount) {
  return std::llround(std::max(0.0, amount) * 1024 * 1024);
}

LayerCost cost_of(const Row& row, double output, double weights) {
  LayerCost cost;
  cost.forward = from_milliseconds(row.forward);
  const Duration backward = from_milliseconds(row.backward);
  cost.backward_input = backward / 2;
  cost.backward_weight = backward - cost.backward_input;
  cost.output = mebibytes(output * static_cast<double>(row.microbatch));
  cost.saved = std::max(Bytes{0}, mebibytes(row.activation) - cost.output);
  cost.saved_for_weight = cost.saved;
  cost.parameters = cost.gradients = mebibytes(weights);
  cost.provenance = Provenance::measured;
  return cost;
}

}  // namespace

bool looks_like_chimera(std::string_view content) {
  const std::string_view header = content.substr(0, content.find('\n'));
  return header.starts_with("bs,") && header.find("time_f") != std::string_view::npos &&
         header.find("mem_param") != std::string_view::npos;
}

Profile import_chimera(std::string_view content, const std::string& file) {
  const Table table(content, file);
  const std::string name = std::filesystem::path(file).stem().string();
  const auto known = std::ranges::find_if(
      models, [&](const Blocks& model) { return name.starts_with(model.name); });
  const int blocks = known == models.end() ? 1 : known->count;
  Profile profile;
  profile.model.name = known == models.end() ? name : std::string(known->name);
  profile.source = "layer profile of Chimera (" + name + ")";
  profile.warnings.push_back(
      known == models.end()
          ? "the file's name begins with no known model: the profile has one block"
          : concat("how often the block repeats is not in the file: ", blocks, " times, as ",
                   known->name, " has"));
  const Row &first = table.rows().front(), &last = table.rows().back();
  const double output = std::max(0.0, (last.parameters - first.parameters) /
                                          static_cast<double>(last.microbatch - first.microbatch));
  const double weights = first.parameters - output * static_cast<double>(first.microbatch);
  for (int block = 0; block < blocks; ++block) {
    Layer layer;
    layer.name = concat("block.", block);
    layer.parameters = mebibytes(weights) / 4;
    profile.model.layers.push_back(std::move(layer));
    if (block > 0) profile.model.edges.push_back({block - 1, block});
  }
  for (const Row& row : table.rows()) {
    ProfileEntry entry;
    entry.setting.device = "generic";
    entry.setting.microbatch = row.microbatch;
    entry.layers.assign(static_cast<std::size_t>(blocks), cost_of(row, output, weights));
    profile.entries.push_back(std::move(entry));
  }
  validate(profile);
  return profile;
}

}  // namespace stagecraft
