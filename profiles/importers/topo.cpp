// `nvidia-smi topo -m`: a matrix of what lies between devices and network ports,
//
//           GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
//   GPU0     X    NV12  PXB   0-47          0
//   GPU1    NV12   X    SYS   48-95         1
//   NIC0    PXB   SYS    X
//
// and a legend, of which "NIC0: mlx5_0" matters. NVk are k bonded NVLinks; where all pairs have as
// many as a device could not have to each, a switch joins them.

#include <algorithm>
#include <map>

#include "profiles/cluster_importers.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Of any generation.
constexpr int most_links = 18;

struct MatrixLine {
  int number = 0;
  std::vector<std::string> words;
};

/// Words of each line, without the codes for underlining that terminals get.
std::vector<MatrixLine> lines_of(std::string_view content) {
  std::vector<MatrixLine> lines;
  int number = 0;
  for (const std::string& text : split(content, '\n')) {
    MatrixLine line{.number = ++number, .words = {}};
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) line.words.push_back(word);
      word.clear();
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\x1b') {
        while (i < text.size() && text[i] != 'm') ++i;
      } else if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r') {
        end_word();
      } else {
        word += text[i];
      }
    }
    end_word();
    lines.push_back(std::move(line));
  }
  return lines;
}

bool is_device(std::string_view word) {
  return word.starts_with("GPU") && word.size() > 3 &&
         std::ranges::all_of(word.substr(3), [](char c) { return c >= '0' && c <= '9'; });
}

class Matrix {
 public:
  Matrix(std::string_view content, const std::string& file)
      : file_(file), lines_(lines_of(content)) {
    read_header();
    for (const MatrixLine& line : lines_) {
      if (line.number > header_ && !line.words.empty()) read_row(line);
    }
    if (cells_.size() != devices_) {
      throw_at(header_, concat("the header names ", devices_, " devices, but ", cells_.size(),
                               " rows follow"));
    }
    check_symmetry();
  }

  Machine machine(const std::string& device) const {
    Machine machine{.name = file_, .device = device};
    machine.nvlinks.assign(devices_, std::vector<int>(devices_, 0));
    machine.paths.assign(devices_, std::vector<PciPath>(devices_, PciPath::sys));
    for (std::size_t a = 0; a < devices_; ++a) {
      for (std::size_t b = 0; b < devices_; ++b) {
        if (a == b) continue;
        const Cell& cell = cells_[a].second[b];
        machine.nvlinks[a][b] = cell.links;
        if (cell.links == 0) machine.paths[a][b] = cell.path;
      }
      machine.numa_nodes.push_back(numa_[a]);
    }
    machine.switched = is_switched(machine.nvlinks);
    for (std::size_t p = devices_; p < columns_.size(); ++p) {
      NetworkPort port{.name = name_of(columns_[p]), .speed = {}, .to_devices = {}};
      for (std::size_t a = 0; a < devices_; ++a) {
        port.to_devices.push_back(cells_[a].second[p].path);
      }
      machine.ports.push_back(std::move(port));
    }
    return machine;
  }

 private:
  struct Cell {
    int links = 0;
    PciPath path = PciPath::sys;
    bool self = false;
    bool operator==(const Cell&) const = default;
  };

  [[noreturn]] void throw_at(int line, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, line, line > 0 ? 1 : 0},
                {"give the file all that `nvidia-smi topo -m` prints, its legend included"});
  }

  void read_header() {
    for (const MatrixLine& line : lines_) {
      if (line.words.empty() || line.words.front() != "GPU0") continue;
      header_ = line.number;
      for (const std::string& word : line.words) {
        if (word == "CPU" || word == "NUMA") break;
        columns_.push_back(word);
      }
      break;
    }
    if (header_ == 0) throw_at(0, "no line begins with GPU0: expected the header of a matrix");
    while (devices_ < columns_.size() && is_device(columns_[devices_])) ++devices_;
  }

  void read_row(const MatrixLine& line) {
    if (line.words.front().ends_with(':') && line.words.size() == 2) {
      const std::string& key = line.words.front();
      names_[key.substr(0, key.size() - 1)] = line.words[1];
    }
    if (!is_device(line.words.front()) || cells_.size() == devices_) return;
    const std::string expected = columns_[cells_.size()];
    if (line.words.front() != expected) {
      throw_at(line.number,
               concat("expected the row of ", expected, ", found ", line.words.front()));
    }
    if (line.words.size() < columns_.size() + 1) {
      throw_at(line.number, concat("expected ", columns_.size(), " entries behind ", expected,
                                   ", found ", line.words.size() - 1));
    }
    std::vector<Cell> row;
    for (std::size_t c = 0; c < columns_.size(); ++c)
      row.push_back(cell_of(line.words[c + 1], line.number));
    cells_.emplace_back(line.number, std::move(row));
    // "0-47  0  N/A": CPUs, then the NUMA node.
    const std::size_t numa = columns_.size() + 2;
    numa_.push_back(line.words.size() > numa ? line.words[numa] : "");
  }

  Cell cell_of(const std::string& word, int line) const {
    if (word == "X") return {.links = 0, .path = PciPath::pix, .self = true};
    if (const auto path = pci_path_named(word)) return {.links = 0, .path = *path};
    if (word.starts_with("NV") && word.size() > 2 && word.size() < 5) {
      const std::string digits = word.substr(2);
      if (digits.find_first_not_of("0123456789") == std::string::npos && std::stoi(digits) > 0)
        return {.links = std::stoi(digits), .path = PciPath::pix};
    }
    throw_at(line,
             concat("expected X, NV with a number of links, PIX, PXB, PHB, NODE or SYS, found "
                    "\"",
                    word, "\""));
  }

  void check_symmetry() const {
    for (std::size_t a = 0; a < devices_; ++a) {
      for (std::size_t b = 0; b < devices_; ++b) {
        const auto& [line, row] = cells_[a];
        if (row[b].self != (a == b)) {
          throw_at(line, concat(columns_[a], " and ", columns_[b],
                                ": X stands where a device meets itself, and only there"));
        }
        if (!(row[b] == cells_[b].second[a])) {
          throw_at(line, concat(columns_[a], " and ", columns_[b],
                                " differ in what lies between them, by direction"));
        }
      }
    }
  }

  static bool is_switched(const NvlinkMatrix& links) {
    const auto count = static_cast<int>(links.size());
    if (count < 2 || links[0][1] == 0) return false;
    for (std::size_t a = 0; a < links.size(); ++a) {
      for (std::size_t b = 0; b < links.size(); ++b) {
        if (a != b && links[a][b] != links[0][1]) return false;
      }
    }
    return links[0][1] * (count - 1) > most_links;
  }

  std::string name_of(const std::string& column) const {
    const auto known = names_.find(column);
    return known == names_.end() ? column : known->second;
  }

  std::string file_;
  std::vector<MatrixLine> lines_;
  int header_ = 0;
  std::vector<std::string> columns_;  ///< devices first
  std::size_t devices_ = 0;
  std::vector<std::pair<int, std::vector<Cell>>> cells_;  ///< per device: its line, its row
  std::vector<std::string> numa_;
  std::map<std::string, std::string> names_;  ///< of the legend
};

}  // namespace

bool looks_like_topo(std::string_view content) {
  return content.find("GPU0") != std::string_view::npos &&
         content.find("Affinity") != std::string_view::npos &&
         content.find('<') == std::string_view::npos;
}

Machine import_topo(std::string_view content, const std::string& file, const std::string& device) {
  const Matrix matrix(content, file);
  if (device.empty()) {
    throw Error(ErrorKind::input, "`nvidia-smi topo -m` does not say which devices these are",
                SourcePlace{file, 0, 0}, {"--device a100 says it"});
  }
  return matrix.machine(device);
}

}  // namespace stagecraft
