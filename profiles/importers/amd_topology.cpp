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
// Their JSON: amd_topology_json.cpp.

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

constexpr const char* whole_topology =
    "give the file all that `rocm-smi --showtopo` or `amd-smi topology` prints";

[[noreturn]] void refuse_topology(const std::string& file, int line, const std::string& message) {
  throw Error(ErrorKind::input, message, SourcePlace{file, line, line > 0 ? 1 : 0},
              {whole_topology});
}

/// The tables of a text.
class AmdTopologyText {
 public:
  AmdTopologyText(const std::vector<PlainLine>& lines, const std::string& file)
      : file_(file), lines_(lines) {}

  AmdTopologyTables tables() const {
    const auto types = table({"Link Type between two GPUs", "LINK TYPE TABLE"});
    if (!types) throw_at(0, "there is no table of link types");
    AmdTopologyTables tables{
        .devices = types->columns, .types = types->cells, .lines = types->lines};
    const auto take = [&](AmdTopologyTables::Matrix& matrix,
                          const std::vector<std::string_view>& titles) {
      const auto other = table(titles);
      if (!other) return;
      if (other->columns != types->columns)
        throw_at(other->line, "the tables are of different devices");
      matrix = other->cells;
    };
    take(tables.hops, {"Hops between two GPUs", "HOPS TABLE"});
    take(tables.bandwidths, {"NUMA BW TABLE", "Bandwidth between two GPUs"});
    for (const PlainLine& line : lines_) {
      const std::size_t node = line.text.find("(Topology) Numa Node: ");
      if (node != std::string::npos)
        tables.numa_nodes.push_back(words_of(line.text.substr(node + 22)).front());
    }
    return tables;
  }

 private:
  [[noreturn]] void throw_at(int line, const std::string& message) const {
    refuse_topology(file_, line, message);
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

  std::string file_;
  const std::vector<PlainLine>& lines_;
};

/// What lies between two devices.
class AmdTopology {
 public:
  AmdTopology(const AmdTopologyTables& tables, const std::string& file)
      : tables_(tables), file_(file) {}

  Machine machine(const std::string& device) const {
    const std::size_t count = tables_.devices.size();
    Machine machine{.name = file_, .device = device};
    machine.nvlinks.assign(count, std::vector<int>(count, 0));
    machine.paths.assign(count, std::vector<PciPath>(count, PciPath::sys));
    for (std::size_t a = 0; a < count; ++a) {
      for (std::size_t b = 0; b < count; ++b) {
        if (a == b) continue;
        machine.nvlinks[a][b] = links(a, b);
        machine.paths[a][b] = path(a, b);
        if (tables_.types[a][b] == tables_.types[b][a]) continue;
        throw_at(a, concat(tables_.devices[a], " and ", tables_.devices[b],
                           " differ in what lies between them, by direction"));
      }
    }
    machine.numa_nodes = tables_.numa_nodes;
    return machine;
  }

 private:
  /// At the row of a device.
  [[noreturn]] void throw_at(std::size_t row, const std::string& message) const {
    refuse_topology(file_, tables_.lines.empty() ? 0 : tables_.lines[row], message);
  }

  int links(std::size_t a, std::size_t b) const {
    const std::string& type = tables_.types[a][b];
    if (type == "PCIE") return 0;
    if (type != "XGMI") {
      throw_at(a, concat(tables_.devices[a], " and ", tables_.devices[b],
                         ": expected XGMI or PCIE between them, found \"", type, "\""));
    }
    if (tables_.bandwidths.empty()) return 1;
    const std::string& range = tables_.bandwidths[a][b];
    const std::size_t dash = range.find('-');
    int most = 0;
    if (dash != std::string::npos)
      std::from_chars(range.data() + dash + 1, range.data() + range.size(), most);
    return std::max(1, most / told_of_a_link);
  }

  /// Two hops of PCIe cross one host bridge, more the link between sockets.
  PciPath path(std::size_t a, std::size_t b) const {
    return !tables_.hops.empty() && tables_.hops[a][b] == "2" ? PciPath::phb : PciPath::sys;
  }

  const AmdTopologyTables& tables_;
  std::string file_;
};

}  // namespace

bool is_amd_topology(const std::vector<PlainLine>& lines) {
  return std::ranges::any_of(lines, [](const PlainLine& line) {
    return line.text.find("Link Type between two GPUs") != std::string::npos ||
           line.text.find("LINK TYPE TABLE:") != std::string::npos;
  });
}

AmdTopologyTables read_amd_topology(const std::vector<PlainLine>& lines, const std::string& file) {
  return AmdTopologyText(lines, file).tables();
}

Machine machine_of(const AmdTopologyTables& tables, const std::string& file,
                   const std::string& device) {
  const std::string generation = generation_of_device_kind(device);
  if (!generation.empty() && !generation.starts_with("gfx")) {
    throw Error(ErrorKind::input,
                concat("the table is of AMD's devices, and ", device, " is none of them"),
                SourcePlace{file, 0, 0}, {"--device mi300x or another of them says it"});
  }
  return AmdTopology(tables, file).machine(device);
}

}  // namespace stagecraft
