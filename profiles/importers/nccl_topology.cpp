// The XML that NCCL writes when NCCL_TOPO_DUMP_FILE is set: CPUs, in them PCIe switches, in them
// devices (`gpu`, with their `nvlink`s) and network ports (`net`).
//
//   <system version="1">
//     <cpu numaid="0">
//       <pci busid="0000:0f:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
//         <pci busid="0000:10:00.0" class="0x030200" …>
//           <gpu dev="0" sm="80" rank="0"><nvlink target="…" count="12" tclass="0x068000"/></gpu>
//         </pci>
//         <pci …><nic><net name="mlx5_0" dev="0" speed="200000" port="1"/></nic></pci>
//
// `tclass` 0x068000 is an NVSwitch, 0x030200 another device. `speed` is in Mb/s; where it is not
// above 0 or not there, NCCL takes 10 Gb/s (ncclTopoAddNet). RCCL writes `xgmi`
// where NCCL writes `nvlink`, and the instruction set of its devices (`gcn="gfx942"`).
//
// Clouds give NCCL such a file (NCCL_TOPO_FILE) for machines that hide their slots. It has
// functions of class 0x0302 for devices and 0x0207 or 0x0200 for ports, and neither links nor
// speeds.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>

#include "profiles/cluster_importers.hpp"
#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// An element with its attributes and what is inside; as much of XML as these files use. (pugixml
/// reads more of it, but does not say which line opened an element that nothing closes.)
struct Element {
  std::string name;
  int line = 0;
  std::map<std::string, std::string> attributes;
  std::vector<Element> children;
};

class XmlReader {
 public:
  XmlReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Element document() {
    skip_blank();
    Element root = element(0);
    skip_blank();
    if (at_ < text_.size()) throw_here("expected nothing behind the last element");
    return root;
  }

 private:
  static constexpr int deepest = 64;

  [[noreturn]] void throw_here(const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, line_, 1},
                {"NCCL writes the whole file: run once with NCCL_TOPO_DUMP_FILE=topology.xml"});
  }

  bool ends() const { return at_ >= text_.size(); }

  char next() {
    if (ends()) throw_here("the file ends inside an element");
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }

  bool takes(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    for (std::size_t i = 0; i < word.size(); ++i) next();
    return true;
  }

  /// White space, comments and declarations.
  void skip_blank() {
    for (;;) {
      while (!ends() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' ||
                         text_[at_] == '\r')) {
        next();
      }
      if (takes("<!--")) {
        while (!takes("-->")) next();
      } else if (takes("<?")) {
        while (!takes("?>")) next();
      } else if (takes("<!DOCTYPE")) {
        while (!takes(">")) next();
      } else {
        return;
      }
    }
  }

  std::string name() {
    std::string word;
    while (!ends()) {
      const char c = text_[at_];
      const bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '_' || c == '-';
      if (!fits) break;
      word += next();
    }
    if (word.empty()) throw_here("expected a name");
    return word;
  }

  void attribute(Element& element) {
    const std::string key = name();
    const bool single = !takes("=\"");
    if (single && !takes("='")) throw_here(concat("expected =\" behind ", key));
    const char end = single ? '\'' : '"';
    std::string value;
    for (char c = next(); c != end; c = next()) value += c;
    element.attributes[key] = value;
  }

  Element element(int depth) {
    if (depth > deepest) throw_here("elements are nested too deep");
    if (!takes("<")) throw_here("expected an element, such as <system version=\"1\">");
    Element element{.name = name(), .line = line_, .attributes = {}, .children = {}};
    for (;;) {
      skip_blank();
      if (takes("/>")) return element;
      if (takes(">")) break;
      attribute(element);
    }
    for (;;) {
      skip_blank();
      if (ends()) {
        throw_here(concat("the file ends inside <", element.name, ">, which line ", element.line,
                          " opens"));
      }
      if (takes("</")) break;
      element.children.push_back(this->element(depth + 1));
    }
    const std::string closed = name();
    if (closed != element.name) {
      throw_here(concat("expected </", element.name, ">, which line ", element.line,
                        " opens, found </", closed, ">"));
    }
    skip_blank();
    if (!takes(">")) throw_here(concat("expected > behind </", closed));
    return element;
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

/// Of a port whose speed is not told.
constexpr Bandwidth without_speed{1'250'000'000};

/// A device or port with the PCIe elements and the CPU above it, outermost first.
struct Leaf {
  const Element* element = nullptr;
  std::vector<const Element*> above;

  const Element& cpu() const { return *above.front(); }
};

class Topology {
 public:
  Topology(const Element& root, const std::string& file) : file_(file) {
    if (root.name != "system") {
      throw_at(root, concat("expected <system …>, found <", root.name, ">"));
    }
    std::vector<const Element*> above;
    for (const Element& child : root.children) collect(child, above);
    if (devices_.empty()) {
      is_input_ = true;
      devices_ = of_classes({"0x0302", "0x0300", "0x1200", "0x0380"});
      ports_ = of_classes({"0x0207", "0x0200"});
    }
    if (devices_.empty()) {
      throw_at(root, "the system has no <gpu>, and no function of class 0x0302 that may be one");
    }
    if (!is_input_) {
      std::ranges::stable_sort(devices_, {},
                               [&](const Leaf& leaf) { return number(*leaf.element, "dev"); });
    }
  }

  Machine machine(std::string device) const {
    std::vector<std::string> notes;
    const bool is_named = !device.empty();
    if (!is_named) device = guessed_kind(notes);
    const std::size_t count = devices_.size();
    Machine machine{.name = file_, .device = device, .pcie = pcie()};
    machine.links_unknown = is_input_;
    if (is_input_) {
      notes.push_back(
          "this is an input of NCCL (NCCL_TOPO_FILE), not its dump: functions of class 0x0302 are "
          "taken as devices");
    }
    machine.notes = std::move(notes);
    machine.nvlinks.assign(count, std::vector<int>(count, 0));
    machine.paths.assign(count, std::vector<PciPath>(count, PciPath::sys));
    for (std::size_t a = 0; a < count; ++a) {
      add_links(machine, a);
      for (std::size_t b = 0; b < count; ++b) machine.paths[a][b] = path(devices_[a], devices_[b]);
      machine.numa_nodes.push_back(text(devices_[a].cpu(), "numaid"));
    }
    add_switch_links(machine);
    check_kind(machine);
    if (is_named) require_generation(device);
    for (const Leaf& leaf : ports_) machine.ports.push_back(port(leaf));
    const std::string without = without_speeds_note();
    if (!without.empty()) machine.notes.push_back(without);
    check_links(machine);
    return machine;
  }

 private:
  [[noreturn]] void throw_at(const Element& element, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, element.line, 1},
                {"NCCL writes the whole file: run once with NCCL_TOPO_DUMP_FILE=topology.xml"});
  }

  void collect(const Element& element, std::vector<const Element*>& above) {
    if (above.empty() && element.name != "cpu") return;
    if (element.name == "pci") functions_.push_back({&element, above});
    if (element.name == "gpu") devices_.push_back({&element, above});
    if (element.name == "net") ports_.push_back({&element, above});
    above.push_back(&element);
    for (const Element& child : element.children) collect(child, above);
    above.pop_back();
  }

  const std::string& text(const Element& element, const std::string& key) const {
    const auto found = element.attributes.find(key);
    if (found == element.attributes.end())
      throw_at(element, concat("<", element.name, "> has no attribute ", key));
    return found->second;
  }

  int number(const Element& element, const std::string& key) const {
    const std::string& value = text(element, key);
    int result = 0;
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, result);
    if (read.ec == std::errc{} && read.ptr == end && result >= 0) return result;
    throw_at(element,
             concat("<", element.name, " ", key, "=\"", value, "\">: expected a whole number"));
  }

  /// Mb/s above 0. Drivers of virtual ports write -1, 0 or nothing.
  std::optional<Bandwidth> speed(const Element& net) const {
    const auto written = net.attributes.find("speed");
    if (written == net.attributes.end() || written->second == "-1") return {};
    const int megabits = number(net, "speed");
    if (megabits == 0) return {};
    return Bandwidth{std::int64_t{megabits} * 125'000};
  }

  NetworkPort port(const Leaf& leaf) const {
    NetworkPort port{
        .name = text(*leaf.element, is_input_ ? "busid" : "name"), .speed = {}, .to_devices = {}};
    if (!is_input_) port.speed = speed(*leaf.element).value_or(without_speed);
    for (const Leaf& to : devices_) port.to_devices.push_back(path(leaf, to));
    return port;
  }

  /// Empty where each port of a dump has a speed.
  std::string without_speeds_note() const {
    std::string names;
    for (const Leaf& leaf : ports_) {
      if (is_input_ || speed(*leaf.element)) continue;
      names += (names.empty() ? "" : ", ") + text(*leaf.element, "name");
    }
    if (names.empty()) return "";
    return concat("no speed is written of ", names, ": 10Gb/s, as NCCL takes it");
  }

  /// Functions of these classes, as if each stood in a slot of its own.
  std::vector<Leaf> of_classes(const std::vector<std::string_view>& classes) const {
    std::vector<Leaf> found;
    for (const Leaf& function : functions_) {
      const auto its = function.element->attributes.find("class");
      if (its == function.element->attributes.end() || !function.element->children.empty())
        continue;
      const auto is_its = [&](std::string_view each) { return its->second.starts_with(each); };
      if (std::ranges::none_of(classes, is_its)) continue;
      Leaf leaf = function;
      leaf.above.push_back(function.element);
      found.push_back(std::move(leaf));
    }
    return found;
  }

  struct Generation {
    std::string name, what;
  };
  /// Older files of RCCL number instruction sets: 908 is gfx908, 910 gfx90a.
  Generation generation_of(const Element& gpu) const {
    const auto set = gpu.attributes.find("gcn");
    if (set == gpu.attributes.end()) {
      const std::string capability = std::to_string(number(gpu, "sm"));
      return {capability, "compute capability " + capability};
    }
    std::string name = set->second.substr(0, set->second.find(':'));
    if (!name.starts_with("gfx")) name = name == "910" ? "gfx90a" : "gfx" + name;
    return {name, "instruction set " + set->second};
  }

  /// A kind that the command line names is not of another generation than the file's devices.
  void require_generation(const std::string& device) const {
    for (const Leaf& leaf : devices_) {
      const Element& gpu = *leaf.element;
      if (!gpu.attributes.contains("gcn") && !gpu.attributes.contains("sm")) continue;
      const auto [generation, what] = generation_of(gpu);
      const std::string own = generation_of_device_kind(device);
      if (own.empty() || own == generation || own == "gfx" + generation) continue;
      const std::vector<std::string> kinds = device_kinds_of_generation(generation);
      throw Error(ErrorKind::input,
                  concat("the file's devices have ", what, ", ", device, " has ", own),
                  SourcePlace{file_, gpu.line, 1},
                  {kinds.empty() ? "no built-in device kind is of that generation"
                                 : concat("--device ", kinds.front(), " is of that generation")});
    }
  }

  /// By compute capability or instruction set; what it may be besides is said.
  std::string guessed_kind(std::vector<std::string>& notes) const {
    const Element& gpu = *devices_.front().element;
    if (is_input_) {
      throw Error(ErrorKind::input,
                  "this is an input of NCCL (NCCL_TOPO_FILE), which does not say which devices "
                  "these are",
                  SourcePlace{file_, gpu.line, 1}, {"--device a100-80gb says it"});
    }
    const auto [generation, what] = generation_of(gpu);
    const std::vector<std::string> kinds = device_kinds_of_generation(generation);
    if (kinds.empty()) {
      throw Error(ErrorKind::input, concat("no built-in device kind is of ", what),
                  SourcePlace{file_, gpu.line, 1}, {"--device a100 says which kind it is"});
    }
    std::string others;
    for (std::size_t i = 1; i < kinds.size(); ++i) others += (i > 1 ? ", " : "") + kinds[i];
    notes.push_back(concat(what, " is taken for ", kinds.front(),
                           others.empty() ? "" : concat("; it may be ", others),
                           ": --device says"));
    return kinds.front();
  }

  /// The devices' own slot: "16.0 GT/s PCIe" with 16 lanes carries 16/8 x 16 GB/s, of which NCCL
  /// counts on three quarters (12 GB/s of PCIe 3). Nothing where the file leaves it out.
  std::optional<Bandwidth> pcie() const {
    const Element* slot = devices_.front().above.back();
    const auto rate = slot->attributes.find("link_speed");
    const auto width = slot->attributes.find("link_width");
    if (rate == slot->attributes.end() || width == slot->attributes.end()) return {};
    if (rate->second.empty() || width->second.empty()) return {};
    double transfers = 0;
    const std::string& word = rate->second;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), transfers);
    const std::string_view unit(read.ptr, word.data() + word.size());
    constexpr std::array known{2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
    if (read.ec != std::errc{} || std::ranges::find(known, transfers) == known.end() ||
        !unit.starts_with(" GT/s")) {
      throw_at(*slot,
               concat("link_speed=\"", word,
                      "\": expected that of a generation of PCIe, such as \"16.0 GT/s PCIe\""));
    }
    const int lanes = number(*slot, "link_width");
    if (lanes == 0) return {};  // of a virtual machine
    if (lanes > 32) {
      throw_at(*slot, concat("link_width=\"", lanes, "\": expected from 1 to 32 lanes"));
    }
    constexpr double usable = 0.75;
    return Bandwidth{std::llround(transfers / 8 * lanes * usable * 1e9)};
  }

  static PciPath path(const Leaf& a, const Leaf& b) {
    if (&a.cpu() != &b.cpu()) return PciPath::sys;
    std::size_t shared = 0;
    while (shared < a.above.size() && shared < b.above.size() &&
           a.above[shared] == b.above[shared]) {
      ++shared;
    }
    if (shared == 1) return PciPath::phb;
    // Between the switch they share and the devices' own slots: none, or further switches.
    const std::size_t between = std::max(a.above.size(), b.above.size()) - shared;
    return between <= 2 ? PciPath::pix : PciPath::pxb;
  }

  static bool is_link(const Element& element) {
    return element.name == "nvlink" || element.name == "xgmi";
  }

  /// Links to devices.
  void add_links(Machine& machine, std::size_t a) const {
    for (const Element& child : devices_[a].element->children) {
      if (!is_link(child) || leads_to_switch(child)) continue;
      for (std::size_t b = 0; b < devices_.size(); ++b) {
        const Element& slot = *devices_[b].above.back();
        if (text(slot, "busid") == text(child, "target"))
          machine.nvlinks[a][b] += number(child, "count");
      }
    }
  }

  bool leads_to_switch(const Element& link) const { return text(link, "tclass") == "0x068000"; }

  /// Through switches a pair has as many links as the one that has fewer.
  void add_switch_links(Machine& machine) const {
    std::vector<int> own(devices_.size(), 0);
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (const Element& child : devices_[a].element->children)
        if (is_link(child) && leads_to_switch(child)) own[a] += number(child, "count");
    }
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      if (own[a] > 0) machine.switched = true;
      for (std::size_t b = 0; b < devices_.size(); ++b)
        if (a != b) machine.nvlinks[a][b] += std::min(own[a], own[b]);
    }
  }

  /// xGMI joins devices of AMD only, NVLink those of NVIDIA.
  void check_kind(const Machine& machine) const {
    const std::string_view fabric = device_named(machine.device).fabric.name;
    for (const Leaf& leaf : devices_) {
      for (const Element& child : leaf.element->children) {
        const bool fits = child.name != "xgmi" || fabric.empty() || fabric == "xGMI";
        const bool others = child.name == "nvlink" && fabric == "xGMI";
        if (fits && !others) continue;
        throw Error(ErrorKind::input,
                    concat("<", child.name, "> joins devices of ", others ? "NVIDIA" : "AMD", ": ",
                           machine.device, " has none"),
                    SourcePlace{file_, child.line, 1},
                    {others ? "--device h100 says which kind it is"
                            : "--device mi300x says which kind it is"});
      }
    }
  }

  void check_links(const Machine& machine) const {
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = 0; b < devices_.size(); ++b) {
        if (machine.nvlinks[a][b] == machine.nvlinks[b][a]) continue;
        throw_at(*devices_[a].element,
                 concat("devices ", a, " and ", b, " have ", machine.nvlinks[a][b], " and ",
                        machine.nvlinks[b][a], " links to each other: expected as many"));
      }
    }
  }

  std::string file_;
  std::vector<Leaf> devices_, ports_, functions_;
  bool is_input_ = false;  ///< of NCCL: no <gpu>, only functions
};

}  // namespace

bool looks_like_nccl_topology(std::string_view content) {
  return content.find("<system") != std::string_view::npos &&
         content.find("<cpu") != std::string_view::npos;
}

Machine import_nccl_topology(std::string_view content, const std::string& file,
                             const std::string& device) {
  const Element root = XmlReader(content, file).document();
  return Topology(root, file).machine(device);
}

}  // namespace stagecraft
