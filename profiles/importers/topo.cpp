// What a vendor's tool prints of the devices of a machine. `nvidia-smi topo -m`: a matrix of what
// lies between devices and network ports,
//
//           GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity
//   GPU0     X    NV12  PXB   0-47          0
//   GPU1    NV12   X    SYS   48-95         1
//   NIC0    PXB   SYS    X
//
// and a legend, of which "NIC0: mlx5_0" matters. NVk are k bonded NVLinks; through switches each
// device has them to every other. `nvidia-smi topo -p2p` prints matrices too, of words such as OK
// and GNS: they say no links, and are passed over. AMD's tools: amd_topology.hpp.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "profiles/cluster_importers.hpp"
#include "profiles/error.hpp"
#include "profiles/importers/amd_topology.hpp"
#include "profiles/launcher_labels.hpp"

namespace stagecraft {

namespace {

struct MatrixLine {
  int number = 0;
  std::vector<std::string> words;
};

std::vector<MatrixLine> lines_of(const std::vector<PlainLine>& plain) {
  std::vector<MatrixLine> lines;
  for (const PlainLine& line : plain) lines.push_back({line.number, words_of(line.text)});
  return lines;
}

bool is_device(std::string_view word) {
  return word.starts_with("GPU") && word.size() > 3 &&
         std::ranges::all_of(word.substr(3), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_self(std::string_view word) {
  return word == "X";
}

/// The heading of a matrix: its first word is a device, and no entry follows.
bool is_heading(const MatrixLine& line) {
  if (line.words.empty() || !is_device(line.words.front())) return false;
  return line.words.size() == 1 || is_device(line.words[1]) ||
         (std::ranges::none_of(line.words, is_self) && !pci_path_named(line.words[1]) &&
          !line.words[1].starts_with("NV"));
}

/// What `nvidia-smi topo -p2p` prints between two devices.
bool is_peer_status(std::string_view word) {
  constexpr std::array<std::string_view, 8> words{"OK", "CNS", "GNS", "TNS",
                                                  "NS", "DR",  "U",   "NSTP"};
  return std::ranges::find(words, word) != words.end();
}

/// One matrix, from its heading to the next one's.
class Matrix {
 public:
  Matrix(std::vector<MatrixLine> lines, const std::string& file)
      : file_(file), lines_(std::move(lines)) {
    read_heading();
  }

  /// Of the statuses of peers: there are no links in it.
  bool is_of_peers() const {
    for (const MatrixLine& line : rows()) {
      if (!line.words.empty() && is_device(line.words.front()))
        return std::ranges::any_of(line.words, is_peer_status);
    }
    return false;
  }

  int heading() const { return heading_; }

  void read() {
    for (const MatrixLine& line : rows()) {
      if (!line.words.empty()) read_row(line);
    }
    if (cells_.size() != devices_) {
      throw_at(heading_, concat("the header names ", devices_, " devices, but ", cells_.size(),
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
    for (std::size_t p = devices_; p < columns_.size(); ++p) {
      NetworkPort port{.name = name_of(columns_[p]), .speed = {}, .to_devices = {}};
      for (std::size_t a = 0; a < devices_; ++a) {
        port.to_devices.push_back(cells_[a].second[p].path);
      }
      machine.ports.push_back(std::move(port));
    }
    return machine;
  }

  /// Whether both say the same of the same devices.
  bool says_what(const Matrix& other) const {
    if (columns_ != other.columns_ || cells_.size() != other.cells_.size()) return false;
    for (std::size_t a = 0; a < cells_.size(); ++a)
      if (!(cells_[a].second == other.cells_[a].second)) return false;
    return true;
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

  /// What stands below the heading.
  std::span<const MatrixLine> rows() const { return std::span(lines_).subspan(1); }

  void read_heading() {
    heading_ = lines_.front().number;
    for (const std::string& word : lines_.front().words) {
      if (word == "CPU" || word == "NUMA") break;
      columns_.push_back(word);
    }
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
    if (is_self(word)) return {.links = 0, .path = PciPath::pix, .self = true};
    // Releases before 2016 call the link between sockets so.
    if (word == "SOC") return {.links = 0, .path = PciPath::sys};
    if (const auto path = pci_path_named(word)) return {.links = 0, .path = *path};
    if (word.starts_with("NV") && word.size() > 2 && word.size() < 5) {
      const std::string digits = word.substr(2);
      if (digits.find_first_not_of("0123456789") == std::string::npos && std::stoi(digits) > 0)
        return {.links = std::stoi(digits), .path = PciPath::pix};
    }
    // MetaX's mx-smi and Huawei's npu-smi print tables of the same shape.
    for (const std::string_view foreign : {"MX", "MXLK", "HCCS", "HCCS_SW", "SIO"}) {
      if (word != foreign) continue;
      throw Error(ErrorKind::input,
                  concat("\"", word,
                         "\" is a link of another vendor's devices; of AMD's and "
                         "NVIDIA's tables are read"),
                  SourcePlace{file_, line, 1},
                  {"write the machine as an expression: 8xKIND@100GB/s, with a kind of one's own"});
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

  std::string name_of(const std::string& column) const {
    const auto known = names_.find(column);
    return known == names_.end() ? column : known->second;
  }

  std::string file_;
  std::vector<MatrixLine> lines_;
  int heading_ = 0;
  std::vector<std::string> columns_;  ///< devices first
  std::size_t devices_ = 0;
  std::vector<std::pair<int, std::vector<Cell>>> cells_;  ///< per device: its line, its row
  std::vector<std::string> numa_;
  std::map<std::string, std::string> names_;  ///< of the legend
};

/// All matrices of a text, each with the lines up to the next heading.
std::vector<Matrix> matrices_of(const std::vector<MatrixLine>& lines, const std::string& file) {
  std::vector<Matrix> matrices;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (!is_heading(lines[at])) continue;
    std::size_t end = at + 1;
    while (end < lines.size() && !is_heading(lines[end])) ++end;
    matrices.emplace_back(std::vector<MatrixLine>(lines.begin() + static_cast<std::ptrdiff_t>(at),
                                                  lines.begin() + static_cast<std::ptrdiff_t>(end)),
                          file);
  }
  return matrices;
}

/// The text of each label, in order, so that what several machines print at once is apart.
std::vector<std::vector<PlainLine>> texts_by_label(const std::vector<PlainLine>& lines) {
  std::vector<std::vector<PlainLine>> texts;
  for (const std::string& label : labels_of(lines)) {
    std::vector<PlainLine>& text = texts.emplace_back();
    for (const PlainLine& line : lines)
      if (line.label == label) text.push_back(line);
  }
  return texts;
}

Machine read_nvidia_topology(const std::vector<PlainLine>& lines, const std::string& file,
                             const std::string& device) {
  const auto refuse = [&](int line, const std::string& message, const std::string& help) {
    throw Error(ErrorKind::input, message, SourcePlace{file, line, line > 0 ? 1 : 0}, {help});
  };
  const std::string all = "give the file all that `nvidia-smi topo -m` prints, its legend included";
  std::optional<Matrix> found;
  int machines = 0, of_peers = 0;
  for (const std::vector<PlainLine>& text : texts_by_label(lines)) {
    for (Matrix& matrix : matrices_of(lines_of(text), file)) {
      if (matrix.is_of_peers()) {
        of_peers = matrix.heading();
        continue;
      }
      matrix.read();
      ++machines;
      if (found && !found->says_what(matrix)) {
        refuse(matrix.heading(),
               concat("this matrix differs from the one in line ", found->heading(),
                      ": expected one machine, or several that are alike"),
               "give each machine a file of its own");
      }
      if (!found) found = std::move(matrix);
    }
  }
  if (!found && of_peers > 0) {
    refuse(of_peers, "this is what `nvidia-smi topo -p2p` prints: it tells no links",
           "give the file what `nvidia-smi topo -m` prints");
  }
  if (!found)
    refuse(0, "no line begins with a device such as GPU0: expected the header of a matrix", all);
  if (device.empty()) {
    refuse(0, "`nvidia-smi topo -m` does not say which devices these are", "--device a100 says it");
  }
  Machine machine = found->machine(device);
  if (machines > 1)
    machine.notes.push_back(concat(machines, " matrices say the same: one machine is taken"));
  return machine;
}

}  // namespace

namespace {

/// Of a subset of a machine's devices the first need not be GPU0.
bool names_device(std::string_view content) {
  for (std::size_t at = content.find("GPU"); at != std::string_view::npos;
       at = content.find("GPU", at + 1)) {
    if (at + 3 < content.size() && content[at + 3] >= '0' && content[at + 3] <= '9') return true;
  }
  return false;
}

}  // namespace

bool looks_like_topo(std::string_view content) {
  const bool of_nvidia =
      names_device(content) && content.find("Affinity") != std::string_view::npos;
  const bool of_amd = is_amd_topology_json(content) ||
                      content.find("Link Type between two GPUs") != std::string_view::npos ||
                      content.find("LINK TYPE TABLE:") != std::string_view::npos;
  return (of_nvidia || of_amd) && content.find("<system") == std::string_view::npos;
}

Machine import_topo(std::string_view content, const std::string& file, const std::string& device) {
  const bool is_json = is_amd_topology_json(content);
  const std::vector<PlainLine> lines =
      is_json ? std::vector<PlainLine>{} : lines_without_labels(content);
  if (!is_json && !is_amd_topology(lines)) return read_nvidia_topology(lines, file, device);
  if (device.empty()) {
    throw Error(ErrorKind::input, "AMD's tools do not say which devices these are",
                SourcePlace{file, 0, 0}, {"--device mi300x says it"});
  }
  if (is_json) return machine_of(read_amd_topology_json(content, file), file, device);
  std::optional<Machine> found;
  for (const std::vector<PlainLine>& text : texts_by_label(lines)) {
    if (!is_amd_topology(text)) continue;
    const Machine machine = machine_of(read_amd_topology(text, file), file, device);
    if (found && machine.nvlinks != found->nvlinks) {
      throw Error(ErrorKind::input, "its machines differ: expected one, or several that are alike",
                  SourcePlace{file, 0, 0}, {"give each machine a file of its own"});
    }
    found = machine;
  }
  return *found;
}

}  // namespace stagecraft
