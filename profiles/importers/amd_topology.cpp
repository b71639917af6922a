// `rocm-smi --showtopo` and `amd-smi topology`: tables of what lies between devices,
//
//   ============ Link Type between two GPUs ============        LINK TYPE TABLE:
//          GPU0         GPU1                                                 0000:0c:00.0
//          0000:22:00.0
//   GPU0   0            XGMI                                    0000:0c:00.0 SELF         XGMI
//   GPU1   XGMI         0                                       0000:22:00.0 XGMI         SELF
//
// with others for weights, hops and bandwidths like it. Neither says how many links join a pair:
// one, unless the table of bandwidths has a multiple of a link's 50 GB/s ("50000-200000" MB/s).

#include "profiles/importers/amd_topology.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "profiles/device_names.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// MB/s of one link, as the tools count.
constexpr int told_of_a_link = 50'000;

struct AmdTable {
  int line = 0;
  std::vector<std::string> columns;
  std::vector<int> lines;                       ///< of each row
  std::vector<std::vector<std::string>> cells;  ///< by row and column
};

class AmdTopology {
 public:
  AmdTopology(const std::vector<PlainLine>& lines, const std::string& file)
      : file_(file), lines_(lines) {
    const auto types = table({"Link Type between two GPUs", "LINK TYPE TABLE"});
    if (!types) throw_at(0, "there is no table of link types");
    types_ = *types;
    hops_ = table({"Hops between two GPUs", "HOPS TABLE"});
    bandwidths_ = table({"NUMA BW TABLE", "Bandwidth between two GPUs"});
    for (const auto& other : {hops_, bandwidths_}) {
      if (other && other->columns != types_.columns)
        throw_at(other->line, "the tables are of different devices");
    }
  }

  Machine machine(const std::string& device) const {
    const std::size_t count = types_.columns.size();
    Machine machine{.name = file_, .device = device};
    machine.nvlinks.assign(count, std::vector<int>(count, 0));
    machine.paths.assign(count, std::vector<PciPath>(count, PciPath::sys));
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        if (a == b) continue;
        machine.nvlinks[a][b] = links(a, b);
        machine.paths[a][b] = path(a, b);
        if (types_.cells[a][b] == types_.cells[b][a]) continue;
        throw_at(types_.lines[a], concat(types_.columns[a], " and ", types_.columns[b],
                                         " differ in what lies between them, by direction"));
      }
    }
    for (const PlainLine& line : lines_) {
      const std::size_t node = line.text.find("(Topology) Numa Node: ");
      if (node != std::string::npos)
        machine.numa_nodes.push_back(words_of(line.text.substr(node + 22)).front());
    }
    return machine;
  }

 private:
  [[noreturn]] void throw_at(int line, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, line, line > 0 ? 1 : 0},
                {"give the file all that `rocm-smi --showtopo` or `amd-smi topology` prints"});
  }

  /// Below the first line that has one of these titles.
  std::optional<AmdTable> table(const std::vector<std::string_view>& titles) const {
    const auto is_title = [&](const PlainLine& line) {
      return std::ranges::any_of(
          titles, [&](auto title) { return line.text.find(title) != std::string::npos; });
    };
    auto at = std::ranges::find_if(lines_, is_title);
    if (at == lines_.end()) return {};
    AmdTable table{.line = at->number, .columns = {}, .lines = {}, .cells = {}};
    for (++at;
         at != lines_.end() && table.cells.size() < std::max<std::size_t>(1, table.columns.size());
         ++at) {
      std::vector<std::string> words = words_of(at->text);
      if (words.empty()) continue;
      if (table.columns.empty()) {
        table.columns = words;
        continue;
      }
      const std::string& expected = table.columns[table.cells.size()];
      if (words.front() != expected) {
        throw_at(at->number, concat("expected the row of ", expected, ", found ", words.front()));
      }
      words.erase(words.begin());
      if (words.size() != table.columns.size()) {
        throw_at(at->number, concat("expected ", table.columns.size(), " entries behind ", expected,
                                    ", found ", words.size()));
      }
      table.lines.push_back(at->number);
      table.cells.push_back(std::move(words));
    }
    if (table.columns.empty() || table.cells.size() != table.columns.size()) {
      throw_at(table.line, concat("the table names ", table.columns.size(), " devices, but ",
                                  table.cells.size(), " rows follow"));
    }
    return table;
  }

  int links(std::size_t a, std::size_t b) const {
    const std::string& type = types_.cells[a][b];
    if (type == "PCIE") return 0;
    if (type != "XGMI") {
      throw_at(types_.lines[a],
               concat(types_.columns[a], " and ", types_.columns[b],
                      ": expected XGMI or PCIE between them, found \"", type, "\""));
    }
    if (!bandwidths_) return 1;
    const std::string& range = bandwidths_->cells[a][b];
    const std::size_t dash = range.find('-');
    int most = 0;
    if (dash != std::string::npos)
      std::from_chars(range.data() + dash + 1, range.data() + range.size(), most);
    return std::max(1, most / told_of_a_link);
  }

  /// Two hops of PCIe cross one host bridge, more the link between sockets.
  PciPath path(std::size_t a, std::size_t b) const {
    return hops_ && hops_->cells[a][b] == "2" ? PciPath::phb : PciPath::sys;
  }

  std::string file_;
  const std::vector<PlainLine>& lines_;
  AmdTable types_;
  std::optional<AmdTable> hops_, bandwidths_;
};

}  // namespace

bool is_amd_topology(const std::vector<PlainLine>& lines) {
  return std::ranges::any_of(lines, [](const PlainLine& line) {
    return line.text.find("Link Type between two GPUs") != std::string::npos ||
           line.text.find("LINK TYPE TABLE:") != std::string::npos;
  });
}

Machine read_amd_topology(const std::vector<PlainLine>& lines, const std::string& file,
                          const std::string& device) {
  const std::string generation = generation_of_device_kind(device);
  if (!generation.empty() && !generation.starts_with("gfx")) {
    throw Error(ErrorKind::input,
                concat("the table is of AMD's devices, and ", device, " is none of them"),
                SourcePlace{file, 0, 0}, {"--device mi300x or another of them says it"});
  }
  return AmdTopology(lines, file).machine(device);
}

}  // namespace stagecraft
