#include "profiles/machine.hpp"

#include <filesystem>

#include "profiles/cluster_importers.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/launcher_labels.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// p3.16xlarge: eight V100 in a hybrid cube mesh, no ports.
const std::string cube_mesh =
    R"(	GPU0	GPU1	GPU2	GPU3	GPU4	GPU5	GPU6	GPU7	CPU Affinity	NUMA Affinity
GPU0	 X 	NV1	NV1	NV2	NV2	SYS	SYS	SYS	0-31	0
GPU1	NV1	 X 	NV2	NV1	SYS	NV2	SYS	SYS	0-31	0
GPU2	NV1	NV2	 X 	NV2	SYS	SYS	NV1	SYS	0-31	0
GPU3	NV2	NV1	NV2	 X 	SYS	SYS	SYS	NV1	0-31	0
GPU4	NV2	SYS	SYS	SYS	 X 	NV1	NV1	NV2	32-63	1
GPU5	SYS	NV2	SYS	SYS	NV1	 X 	NV2	NV1	32-63	1
GPU6	SYS	SYS	NV1	SYS	NV1	NV2	 X 	NV2	32-63	1
GPU7	SYS	SYS	SYS	NV1	NV2	NV1	NV2	 X 	32-63	1

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
)";

/// Four A100 behind NVSwitches, two ports, with a terminal's underlining.
const std::string switched =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA "
    "Affinity\x1b[0m\n"
    "GPU0\t X \tNV12\tNV12\tNV12\tPXB\tSYS\t0-47\t0\n"
    "GPU1\tNV12\t X \tNV12\tNV12\tPXB\tSYS\t0-47\t0\n"
    "GPU2\tNV12\tNV12\t X \tNV12\tSYS\tPIX\t48-95\t1\n"
    "GPU3\tNV12\tNV12\tNV12\t X \tSYS\tPXB\t48-95\t1\n"
    "NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tSYS\tPIX\tPXB\tSYS\t X \n"
    "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n";

const std::string pcie =
    "\tGPU0\tGPU1\tGPU2\tCPU Affinity\n"
    "GPU0\t X \tPIX\tSYS\t0-7\n"
    "GPU1\tPIX\t X \tSYS\t0-7\n"
    "GPU2\tSYS\tSYS\t X \t8-15\n";

const std::string two_in_xml = R"(<!-- dumped -->
<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:00:01.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:07:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:c4:00.0" count="6" tclass="0x068000"/>
          <nvlink target="0000:c5:00.0" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:0c:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_0" dev="0" speed="200000" port="1" gdr="1"/>
        </nic>
      </pci>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:47:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="80" rank="1" gdr="1">
        <nvlink target="0000:c4:00.0" count="6" tclass="0x068000"/>
        <nvlink target="0000:c5:00.0" count="6" tclass="0x068000"/>
      </gpu>
    </pci>
  </cpu>
</system>
)";

}  // namespace

TEST_CASE("rings over a hybrid cube mesh are as many as its links allow") {
  // Measured all-reduces over the first n of a DGX-1 reach 22.6, 45, 85, 37, 46, 87 and 135 GB/s:
  // 1, 2, 4, none (a chain: 8/5 of a link), 2, 4 and 6 rings of 22.5 GB/s.
  const std::vector<double> expected{1, 2, 4, 1.6, 2, 4, 6};
  std::vector<int> devices{0};
  for (const double links : expected) {
    devices.push_back(static_cast<int>(devices.size()));
    INFO(devices.size());
    CHECK(nvlink_bus_links(hybrid_cube_mesh(), devices) == Approx(links));
  }
  CHECK(nvlink_bus_links(hybrid_cube_mesh(), {0, 5}) == 0);
}

TEST_CASE("NVLinks of topo -m become rings and pairs") {
  REQUIRE(looks_like_topo(cube_mesh));
  const Machine machine = import_topo(cube_mesh, "t.txt", "v100");
  CHECK(machine.nvlinks == hybrid_cube_mesh());
  CHECK_FALSE(machine.switched);
  const Cluster cluster = cluster_of(machine);
  REQUIRE(cluster.levels.size() == 1);
  CHECK(cluster.levels[0].link.collective == parse_bandwidth("120GB/s"));
  CHECK(link_between(cluster, 0, 3).point_to_point == parse_bandwidth("50GB/s"));
  CHECK(link_between(cluster, 0, 1).point_to_point == parse_bandwidth("25GB/s"));
  // Between cubes, where there is no NVLink, messages cross the sockets.
  CHECK(link_between(cluster, 0, 5).point_to_point == parse_bandwidth("10GB/s"));
  CHECK_THAT(notes_on(machine).front(), ContainsSubstring("6 rings over all devices"));
  CHECK(read_cluster(Json::parse(write_cluster(cluster), "c.json")) == cluster);
}

TEST_CASE("a switch, ports and what is near them are read from topo -m") {
  const Machine machine = import_topo(switched, "t.txt", "a100");
  CHECK(machine.numa_nodes == std::vector<std::string>{"0", "0", "1", "1"});
  REQUIRE(machine.ports.size() == 2);
  CHECK(machine.ports[1].name == "mlx5_1");
  CHECK(machine.ports[1].to_devices[2] == PciPath::pix);
  const Cluster cluster = cluster_of(machine);
  REQUIRE(cluster.levels.size() == 2);
  CHECK(cluster.levels[0].rails == 2);
  CHECK(cluster.levels[1].link.point_to_point == parse_bandwidth("300GB/s"));
  CHECK(cluster.levels[1].link.collective == parse_bandwidth("240GB/s"));
  CHECK(cluster.overrides.empty());
  CHECK_THAT(notes_on(machine)[1], ContainsSubstring("2 mlx5_1 (PIX)"));
}

TEST_CASE("a box without NVLink runs at its slowest path, and nearer pairs at theirs") {
  const Cluster cluster = cluster_of(import_topo(pcie, "t.txt", "a100"));
  CHECK(cluster.levels[0].link.point_to_point == parse_bandwidth("10GB/s"));
  CHECK(link_between(cluster, 0, 1).point_to_point == parse_bandwidth("24GB/s"));
  CHECK(link_between(cluster, 1, 2).point_to_point == parse_bandwidth("10GB/s"));
}

TEST_CASE("what topo -m would not print is refused with its line") {
  const auto complaint = [](const std::string& text, const std::string& device = "a100") {
    CHECK(exit_code_of([&] { import_topo(text, "t.txt", device); }) == 3);
    return message_of([&] { import_topo(text, "t.txt", device); });
  };
  CHECK_THAT(complaint(with(switched, "NV12\tNV12\tPXB", "NV12\tNVX\tPXB")),
             ContainsSubstring("t.txt:2:") && ContainsSubstring("found \"NVX\""));
  CHECK_THAT(complaint(with(switched, "GPU2\tNV12", "GPU7\tNV12")),
             ContainsSubstring("t.txt:4:") && ContainsSubstring("expected the row of GPU2"));
  CHECK_THAT(complaint(with(pcie, "GPU2\tSYS\tSYS\t X \t8-15\n", "")),
             ContainsSubstring("names 3 devices, but 2 rows follow"));
  CHECK_THAT(complaint(with(pcie, "GPU1\tPIX", "GPU1\tPHB")), ContainsSubstring("by direction"));
  CHECK_THAT(complaint(with(pcie, "GPU1\tPIX\t X ", "GPU1\tPIX\tPIX")),
             ContainsSubstring("X stands where a device meets itself"));
  CHECK_THAT(complaint(with(pcie, "SYS\t0-7\nGPU1", "\nGPU1")),
             ContainsSubstring("expected 3 entries behind GPU0"));
  CHECK_THAT(complaint("nothing"), ContainsSubstring("expected the header of a matrix"));
  CHECK_THAT(complaint(pcie, ""), ContainsSubstring("does not say which devices"));
}

namespace {

/// `nvidia-smi topo -m` of so many devices, `links(a, b)` being the entry of a pair.
template <class Links>
std::string printed_matrix(int devices, const Links& links) {
  std::string text;
  for (int a = 0; a < devices; ++a) text += concat("\tGPU", a);
  text += "\tCPU Affinity\tNUMA Affinity\n";
  for (int a = 0; a < devices; ++a) {
    text += concat("GPU", a);
    for (int b = 0; b < devices; ++b) text += concat("\t", a == b ? " X " : links(a, b));
    text += "\t0-63\t0\n";
  }
  return text;
}

Cluster cluster_of_text(const std::string& text, const std::string& device) {
  REQUIRE(looks_like_topo(text));
  return cluster_of(import_topo(text, "t.txt", device));
}

Bandwidth rings_of_text(const std::string& text, const std::string& device) {
  return cluster_of_text(text, device).levels.back().link.collective;
}

}  // namespace

TEST_CASE("tables of other vendors are told as such") {
  const std::string other =
      with(printed_matrix(2, [](int, int) { return std::string("NV2"); }), "NV2", "MX");
  CHECK_THAT(message_of([&] { import_topo(other, "t.txt", "h100"); }),
             ContainsSubstring("\"MX\" is a link of another vendor's devices"));
}

TEST_CASE("a switch is seen by a device's own links, and the weakest device limits rings") {
  const auto all = [](const std::string& links) { return [=](int, int) { return links; }; };
  const auto weaker = [](int a, int b) -> std::string {
    return a == 2 || b == 2 ? "NV16" : "NV18";
  };
  // 18 links of 20.6 GB/s; of a device with 16, 329.6 GB/s.
  CHECK(rings_of_text(printed_matrix(8, all("NV18")), "h100") == parse_bandwidth("370.8GB/s"));
  CHECK(rings_of_text(printed_matrix(2, all("NV18")), "h100") == parse_bandwidth("370.8GB/s"));
  const Cluster degraded = cluster_of_text(printed_matrix(4, weaker), "h100");
  CHECK(degraded.levels[0].link.collective == parse_bandwidth("329.6GB/s"));
  CHECK(link_between(degraded, 0, 2).point_to_point == parse_bandwidth("400GB/s"));
  CHECK(link_between(degraded, 0, 1).point_to_point == parse_bandwidth("450GB/s"));
  CHECK_THAT(notes_on(import_topo(printed_matrix(4, weaker), "t.txt", "h100")).front(),
             ContainsSubstring("but 16 from device 2, which limit collectives"));
  // A part of a DGX-2: six links each, through switches, however few devices are seen.
  for (const int devices : {2, 3, 4, 16})
    CHECK(rings_of_text(printed_matrix(devices, all("NV6")), "v100-32gb") ==
          parse_bandwidth("120GB/s"));
  CHECK(rings_of_text(printed_matrix(8, all("NV8")), "a800") == parse_bandwidth("160GB/s"));
  // Without a switch: four A100 with four links to each other, three rings of each order.
  CHECK(rings_of_text(printed_matrix(4, all("NV4")), "a100") == parse_bandwidth("240GB/s"));
  // One device lost its links: rings go over PCIe, the others' pairs do not.
  const auto lost = [](int a, int b) -> std::string { return a == 3 || b == 3 ? "SYS" : "NV18"; };
  const Cluster partly = cluster_of_text(printed_matrix(4, lost), "h100");
  CHECK(partly.levels[0].link.collective < parse_bandwidth("10GB/s"));
  CHECK(link_between(partly, 0, 1).point_to_point == parse_bandwidth("450GB/s"));
  const auto too_many = [&] { cluster_of_text(printed_matrix(4, all("NV18")), "a100"); };
  CHECK(exit_code_of(too_many) == 3);
  CHECK_THAT(message_of(too_many), ContainsSubstring("18 links to another, but a100 has 12"));
  CHECK_THAT(message_of([&] { cluster_of_text(printed_matrix(2, all("NV4")), "t4"); }),
             ContainsSubstring("t4 has none"));
}

TEST_CASE("pairs that a degraded switch joins by fewer links are named") {
  const auto weak = [](int a, int b) {
    return (a == 0 && b == 2) || (a == 2 && b == 0) ? "NV6" : "NV18";
  };
  const std::string text = printed_matrix(4, [&](int a, int b) { return std::string(weak(a, b)); });
  const Machine machine = import_topo(text, "t.txt", "h100");
  CHECK(notes_on(machine).front() ==
        "NVSwitch: 18 links from a device to every other, but 6 between 0 and 2, which limit "
        "collectives");
  const std::string many = printed_matrix(8, [](int a, int b) {
    return std::string(a / 2 == b / 2 ? "NV18" : a % 2 == b % 2 ? "NV12" : "NV18");
  });
  CHECK_THAT(notes_on(import_topo(many, "t.txt", "h100")).front(),
             ContainsSubstring("12 between 0 and 2, 12 between 0 and 4, ") &&
                 ContainsSubstring("and fewer between 8 other pairs, which limit collectives"));
}

TEST_CASE("some of a machine's devices are a machine") {
  const std::string two =
      "\tGPU1\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\n"
      "GPU1\t X \tNV12\tPXB\t0-47\t0\nGPU3\tNV12\t X \tSYS\t48-95\t1\n"
      "NIC0\tPXB\tSYS\t X \n\n  NIC0: mlx5_0\n";
  const Cluster cluster = cluster_of_text(two, "a100");
  CHECK(device_count(cluster) == 2);
  CHECK(cluster.levels.back().link.point_to_point == parse_bandwidth("300GB/s"));
  std::string labelled;
  for (const std::string& line : split(two, '\n')) labelled += "gpu07: " + line + "\n";
  CHECK(cluster_of_text(labelled, "a100").levels == cluster.levels);
  const std::string one = "\tGPU3\tCPU Affinity\nGPU3\t X \t0-47\n";
  CHECK(device_count(cluster_of_text(one, "a100")) == 1);
}

TEST_CASE("rails are the ports behind a PCIe switch with a device") {
  const std::string four =
      "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tCPU Affinity\n"
      "GPU0\t X \tNV12\tPIX\tNODE\tSYS\t0\nGPU1\tNV12\t X \tNODE\tPXB\tSYS\t0\n"
      "\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_bond_0\n";
  const Machine machine = import_topo(four, "t.txt", "a100");
  CHECK(rail_ports(machine) == std::vector<int>{0, 1});
  CHECK(cluster_of(machine).levels[0].rails == 2);
  CHECK_THAT(notes_on(machine)[2], ContainsSubstring("no rails: mlx5_bond_0"));
  // None is near: those that are as near as any, one for each device at most.
  const std::string far =
      with(with(four, "PIX\tNODE", "PHB\tPHB"), "NODE\tPXB\tSYS", "PHB\tPHB\tPHB");
  CHECK(cluster_of(import_topo(far, "t.txt", "a100")).levels[0].rails == 2);
  CHECK_THAT(notes_on(import_topo(far, "t.txt", "a100"))[2],
             ContainsSubstring("of those that are PHB, 2 count"));
}

TEST_CASE("labels of launchers are stripped, and of several matrices the right one is read") {
  const std::string plain = with(with(switched, "\x1b[4m", ""), "\x1b[0m", "");
  const Machine expected = import_topo(switched, "t.txt", "a100");
  const auto labelled = [&](const std::string& label) {
    std::string text = label;
    for (const char c : plain) text += c == '\n' ? "\n" + label : std::string(1, c);
    return text;
  };
  for (const std::string label :
       {"gpu07: ", "0: ", " 3: ", "[1,0]<stdout>:", "[0] ", "[default0]:", "worker-1  | ",
        "2026-11-28T15:04:19.123Z ", "node-a.cluster.local: ", "> ", "> > ", "(pid=123) ",
        "(topo pid=71, ip=10.0.0.2) ", "[pod/topo-0/main] ",
        "[pod/topo-0/main] 2026-11-28T15:04:19.123Z ", "topo-0 main: ", "topo-0 main "}) {
    INFO(label);
    const Machine machine = import_topo(labelled(label), "t.txt", "a100");
    CHECK(machine.nvlinks == expected.nvlinks);
    REQUIRE(machine.ports.size() == 2);
    CHECK(machine.ports[1].name == "mlx5_1");
  }
  // Two machines, line by line as they answered.
  std::string both;
  for (const std::string& line : split(plain, '\n')) both += "n1: " + line + "\nn2: " + line + "\n";
  CHECK(import_topo(both, "t.txt", "a100").notes.size() == 1);
  // Of Ansible, one host after the other, or each in a line.
  const std::string in_turn =
      "n1 | CHANGED | rc=0 >>\n" + plain + "\nn2 | CHANGED | rc=0 >>\n" + plain;
  CHECK(import_topo(in_turn, "t.txt", "a100").nvlinks == expected.nvlinks);
  CHECK(labels_of(lines_without_labels(in_turn)) == std::vector<std::string>{"n1", "n2"});
  std::string one_line = "n1 | SUCCESS | rc=0 | (stdout) ";
  for (const char c : plain) one_line += c == '\n' ? "\\n" : std::string(1, c);
  CHECK(import_topo(one_line + "\n", "t.txt", "a100").nvlinks == expected.nvlinks);
  const auto unlike = [&] { import_topo(plain + pcie, "t.txt", "a100"); };
  CHECK_THAT(message_of(unlike), ContainsSubstring("differs from the one in line 1"));
  // What `topo -p2p` prints is no matrix of links.
  const std::string peers =
      " \tGPU0\tGPU1\n GPU0\tX\tGNS\n GPU1\tGNS\tX\n\nLegend:\n\n  X = Self\n";
  CHECK(import_topo(peers + plain, "t.txt", "a100").nvlinks == expected.nvlinks);
  CHECK_THAT(message_of([&] { import_topo(peers, "t.txt", "a100"); }),
             ContainsSubstring("t.txt:1:") && ContainsSubstring("topo -p2p"));
}

TEST_CASE("one device has no pairs") {
  const std::string text = "\tGPU0\tNIC0\tNIC1\tCPU Affinity\nGPU0\t X \tNODE\tNODE\t0-19\n";
  const Machine machine = import_topo(text, "t.txt", "a100");
  CHECK(notes_on(machine).front() == "one device: there are no pairs");
  const Cluster cluster = cluster_of(machine);
  CHECK(device_count(cluster) == 1);
  CHECK(cluster.levels[0].rails == 1);
  CHECK(cluster.overrides.empty());
}

TEST_CASE("AMD's tools tell xGMI and PCIe") {
  const auto rocm_smi = [](const std::string& between) {
    return "======= Hops between two GPUs =======\n       GPU0         GPU1\n"
           "GPU0   0            2\nGPU1   2            0\n\n"
           "======= Link Type between two GPUs =======\n       GPU0         GPU1         \n"
           "GPU0   0            " +
           between + "         \nGPU1   " + between +
           "         0            \n\n======= Numa Nodes =======\n"
           "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[0]\t\t: (Topology) Numa Affinity: 0\n"
           "GPU[1]\t\t: (Topology) Numa Node: 1\n======= End of ROCm SMI Log =======\n";
  };
  const Machine machine = import_topo(rocm_smi("XGMI"), "t.txt", "mi300x");
  CHECK(machine.nvlinks == NvlinkMatrix{{0, 1}, {1, 0}});
  CHECK(machine.numa_nodes == std::vector<std::string>{"0", "1"});
  CHECK(cluster_of(machine).levels[0].link.point_to_point == parse_bandwidth("64GB/s"));
  CHECK_THAT(notes_on(machine).front(), ContainsSubstring("xGMIs between pairs"));
  const Machine slots = import_topo(rocm_smi("PCIE"), "t.txt", "mi300x");
  CHECK(slots.paths[0][1] == PciPath::phb);
  CHECK(cluster_of(slots).levels[0].link.point_to_point == parse_bandwidth("48GB/s"));
  CHECK_THAT(message_of([&] { import_topo(rocm_smi("UNKNOWN"), "t.txt", "mi300x"); }),
             ContainsSubstring("t.txt:8:") && ContainsSubstring("found \"UNKNOWN\""));
  CHECK_THAT(message_of([&] { import_topo(rocm_smi("XGMI"), "t.txt", "a100"); }),
             ContainsSubstring("the table is of AMD's devices, and a100 is none of them"));
  const auto amd_smi = [](const std::string& title, const std::string& self,
                          const std::string& other) {
    const std::string a = "0000:0c:00.0", b = "0000:22:00.0";
    return title + "\n             " + a + " " + b + "\n" + a + " " + self + "         " + other +
           "\n" + b + " " + other + "         " + self + "\n\n";
  };
  const std::string both = amd_smi("LINK TYPE TABLE:", "SELF", "XGMI") +
                           amd_smi("NUMA BW TABLE:", "N/A", "50000-200000");
  const Machine dies = import_topo(both, "t.txt", "mi250x");
  CHECK(dies.nvlinks[0][1] == 4);
  CHECK(cluster_of(dies).levels[0].link.point_to_point == parse_bandwidth("200GB/s"));
  CHECK(looks_like_topo(both));
}

namespace {

/// `amd-smi topology --json` of three devices, of which the last is on PCIe.
std::string amd_smi_json(const std::string& third = "PCIE") {
  std::string text = "[";
  for (int a = 0; a < 3; ++a) {
    text += concat(a > 0 ? "," : "", "{\"gpu\": ", a, ", \"bdf\": \"0000:0", a,
                   ":00.0\", \"links\": [");
    for (int b = 0; b < 3; ++b) {
      const bool self = a == b, far = a == 2 || b == 2;
      text += concat(b > 0 ? "," : "", "{\"gpu\": ", b, ", \"bdf\": \"0000:0", b,
                     ":00.0\", \"weight\": 15, \"link_status\": \"ENABLED\", \"link_type\": \"",
                     self  ? "SELF"
                     : far ? third
                           : "XGMI",
                     "\", \"num_hops\": ",
                     self  ? 0
                     : far ? 2
                           : 1,
                     ", \"bandwidth\": \"", self || far ? "N/A" : "50000-100000", "\"}");
    }
    text += "]}";
  }
  return text + "]";
}

}  // namespace

TEST_CASE("the JSON of AMD's tools says what their tables say") {
  const NvlinkMatrix links{{0, 2, 0}, {2, 0, 0}, {0, 0, 0}};
  for (const std::string& text : {amd_smi_json(), "{\"gpu_data\": " + amd_smi_json() + "}"}) {
    REQUIRE(looks_like_topo(text));
    const Machine machine = import_topo(text, "t.json", "mi250x");
    CHECK(machine.nvlinks == links);
    CHECK(machine.paths[0][2] == PciPath::phb);
  }
  // As ROCm before 6.1.1 wrote it.
  const std::string rows =
      R"([{"gpu": 0, "link_type": {"gpu_0": "SELF", "gpu_2": "XGMI"}, "hops": {"gpu_0": 0, "gpu_2": 1}},)"
      R"( {"gpu": 2, "link_type": {"gpu_0": "XGMI", "gpu_2": "SELF"}, "hops": {"gpu_0": 1, "gpu_2": 0}}])";
  CHECK(import_topo(rows, "t.json", "mi300x").nvlinks == NvlinkMatrix{{0, 1}, {1, 0}});
  const std::string rocm_smi =
      R"({"card1": {"(Topology) Numa Node": "0"}, "card3": {"(Topology) Numa Node": "1"}, "system": {)"
      R"("(Topology) Weight between DRM devices 1 and 3": "40", )"
      R"("(Topology) Hops between DRM devices 1 and 3": "2", )"
      R"("(Topology) Link type between DRM devices 1 and 3": "PCIE"}})";
  const Machine slots = import_topo(rocm_smi, "t.json", "mi300x");
  CHECK(slots.nvlinks == NvlinkMatrix{{0, 0}, {0, 0}});
  CHECK(slots.paths[0][1] == PciPath::phb);
  CHECK(slots.numa_nodes == std::vector<std::string>{"0", "1"});
  const auto complaint = [](const std::string& text) {
    CHECK(exit_code_of([&] { import_topo(text, "t.json", "mi300x"); }) == 3);
    return message_of([&] { import_topo(text, "t.json", "mi300x"); });
  };
  CHECK_THAT(
      complaint(amd_smi_json("UNKNOWN")),
      ContainsSubstring("0000:00:00.0 and 0000:02:00.0: expected XGMI or PCIE between them"));
  CHECK_THAT(complaint(with(amd_smi_json(), "\"link_type\": \"XGMI\", ", "")),
             ContainsSubstring("some pairs of devices are not told"));
  CHECK_THAT(complaint(with(amd_smi_json(), "{\"gpu\": 1, \"bdf\"", "{\"gpu\": 7, \"bdf\"")),
             ContainsSubstring("no device of the file is 7"));
  CHECK_THAT(complaint(with(rocm_smi, "Link type", "Link length")),
             ContainsSubstring("the types of links are not told"));
  CHECK_THAT(message_of([&] { import_topo(amd_smi_json(), "t.json", "h100"); }),
             ContainsSubstring("is of AMD's devices, and h100 is none of them"));
}

TEST_CASE("a kind of one's own has the links of its file") {
  const TemporaryFolder folder;
  std::string path;
  const auto write = [&](const std::string& kinds) {
    path = folder.file(
        "mine.json", R"({"format": "stagecraft-cluster/1", "name": "mine", "kinds": [)" + kinds +
                         R"(], "levels": [{"count": 2, "link": {"point_to_point": "70GB/s"}}], )" +
                         R"("devices": [{"kind": "mine", "count": 2}]})");
  };
  const std::string mine =
      R"({"name": "mine", "memory": "30GiB", "flops": {"bf16": 1e14}, "memory_bandwidth": "1TB/s"})";
  write(mine);
  const Cluster cluster =
      cluster_of_text(printed_matrix(4, [](int, int) { return std::string("NV3"); }), path);
  CHECK(cluster.kinds[0].name == "mine");
  CHECK(cluster.levels[0].link.point_to_point == parse_bandwidth("70GB/s"));
  write(mine + ", \"h100\"");
  CHECK_THAT(message_of([&] { device_named(path); }), ContainsSubstring("expected one kind"));
  CHECK(exit_code_of([] { device_named("h1000"); }) == 2);
  CHECK_THAT(message_of([] { device_named("h1000"); }), ContainsSubstring("did you mean \"h100\""));
}

TEST_CASE("NCCL's topology tells speeds and the kind, too") {
  REQUIRE(looks_like_nccl_topology(two_in_xml));
  const Machine machine = import_nccl_topology(two_in_xml, "t.xml", "");
  CHECK(machine.device == "a100-80gb");
  CHECK(machine.switched);
  CHECK(machine.nvlinks == NvlinkMatrix{{0, 12}, {12, 0}});
  CHECK(machine.pcie == parse_bandwidth("24GB/s"));
  REQUIRE(machine.ports.size() == 1);
  CHECK(machine.ports[0].to_devices == std::vector<PciPath>{PciPath::pix, PciPath::sys});
  const Cluster cluster = cluster_of(machine);
  CHECK(cluster.levels[0].rails == 1);
  CHECK(cluster.levels[0].link.point_to_point == parse_bandwidth("200Gb/s"));
  CHECK(cluster.levels[1].link.collective == parse_bandwidth("240GB/s"));
}

TEST_CASE("a port of which a dump tells no speed has the one that NCCL takes") {
  for (const std::string speed : {"speed=\"-1\"", "speed=\"0\"", ""}) {
    INFO(speed);
    const Machine machine =
        import_nccl_topology(with(two_in_xml, "speed=\"200000\"", speed), "t.xml", "a100");
    CHECK(machine.ports[0].speed == parse_bandwidth("10Gb/s"));
    CHECK(machine.notes ==
          std::vector<std::string>{"no speed is written of mlx5_0: 10Gb/s, as NCCL takes it"});
    CHECK(cluster_of(machine).levels[0].link.point_to_point == parse_bandwidth("10Gb/s"));
  }
  // Where the file gives a speed, nothing is said.
  CHECK(import_nccl_topology(two_in_xml, "t.xml", "a100").notes.empty());
}

TEST_CASE("a topology that is cut off or makes no sense is refused with its line") {
  const auto complaint = [](const std::string& text) {
    CHECK(exit_code_of([&] { import_nccl_topology(text, "t.xml", ""); }) == 3);
    return message_of([&] { import_nccl_topology(text, "t.xml", ""); });
  };
  CHECK_THAT(complaint(two_in_xml.substr(0, 400)),
             ContainsSubstring("t.xml:") && ContainsSubstring("the file ends inside"));
  CHECK_THAT(complaint(with(two_in_xml, "</nic>", "</net>")),
             ContainsSubstring("t.xml:14:") && ContainsSubstring("expected </nic>, which line 12"));
  CHECK_THAT(complaint(with(two_in_xml, "count=\"6\"", "count=\"six\"")),
             ContainsSubstring("t.xml:7:") && ContainsSubstring("expected a whole number"));
  CHECK_THAT(complaint(with(two_in_xml, "speed=\"200000\"", "speed=\"fast\"")),
             ContainsSubstring("t.xml:13:") && ContainsSubstring("expected a whole number"));
  CHECK_THAT(complaint(with(two_in_xml, "sm=\"80\"", "sm=\"30\"")),
             ContainsSubstring("compute capability 30"));
  CHECK_THAT(complaint("<system version=\"1\"><cpu/></system>"), ContainsSubstring("no <gpu>"));
  const std::string slot =
      "busid=\"0000:07:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\"";
  for (const std::string speed : {"Unknown", "Unknown speed", "17 GT/s", "16.0 GB/s"})
    CHECK_THAT(
        complaint(with(two_in_xml, slot,
                       "busid=\"0000:07:00.0\" class=\"0x030200\" link_speed=\"" + speed + "\"")),
        ContainsSubstring("t.xml:5:") && ContainsSubstring("link_speed=\"" + speed + "\""));
  CHECK_THAT(complaint(with(two_in_xml, slot + " link_width=\"16\"", slot + " link_width=\"255\"")),
             ContainsSubstring("from 1 to 32 lanes"));
  CHECK_THAT(complaint("<graphs/>"), ContainsSubstring("expected <system"));
}

TEST_CASE("a dump says what its kind is a guess of, unequal links of a switch limit a pair") {
  CHECK_THAT(import_nccl_topology(two_in_xml, "t.xml", "").notes.front(),
             ContainsSubstring("compute capability 80 is taken for a100-80gb; it may be a100,"));
  CHECK(import_nccl_topology(two_in_xml, "t.xml", "a100").notes.empty());
  const std::string fewer = with(two_in_xml, "count=\"6\"", "count=\"4\"");
  CHECK(import_nccl_topology(fewer, "t.xml", "a100").nvlinks == NvlinkMatrix{{0, 10}, {10, 0}});
}

TEST_CASE("xGMI of a dump joins devices of AMD, a cloud's input has devices by their class") {
  const std::string amd =
      "<system version=\"2\"><cpu numaid=\"0\">"
      "<pci busid=\"a\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
      "<gpu dev=\"0\" sm=\"94\" gcn=\"gfx942\"><xgmi target=\"b\" count=\"1\" "
      "tclass=\"0x120000\"/></gpu>"
      "</pci><pci busid=\"b\" class=\"0x120000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">"
      "<gpu dev=\"1\" sm=\"94\" gcn=\"gfx942\"><xgmi target=\"a\" count=\"1\" "
      "tclass=\"0x120000\"/></gpu>"
      "</pci></cpu></system>";
  const Machine machine = import_nccl_topology(amd, "t.xml", "");
  CHECK(machine.device == "mi300x");
  CHECK(machine.nvlinks == NvlinkMatrix{{0, 1}, {1, 0}});
  CHECK_THAT(message_of([&] { import_nccl_topology(amd, "t.xml", "h100"); }),
             ContainsSubstring("<xgmi> joins devices of AMD: h100 has none"));
  CHECK_THAT(message_of([&] { import_nccl_topology(two_in_xml, "t.xml", "mi300x"); }),
             ContainsSubstring("<nvlink> joins devices of NVIDIA: mi300x has none"));
  CHECK_THAT(message_of([&] { import_nccl_topology(two_in_xml, "t.xml", "h100"); }),
             ContainsSubstring("t.xml:6:1: the file's devices have compute capability 80, h100 has "
                               "90"));
  const auto of_set = [&](const std::string& set, const std::string& device) {
    return import_nccl_topology(with(with(amd, "gfx942", set), "gfx942", set), "t.xml", device)
        .device;
  };
  // Older files have numbers: 910 is gfx90a.
  CHECK(of_set("910", "") == "mi250x");
  CHECK(of_set("gfx942:sramecc+:xnack-", "mi325x") == "mi325x");
  CHECK_THAT(message_of([&] { of_set("908", "mi300x"); }),
             ContainsSubstring("instruction set 908, mi300x has gfx942"));
  std::string functions;
  for (const std::string bus : {"1", "2"}) {
    functions += "<pci busid=\"000" + bus +
                 ":00\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"/>"
                 "<pci busid=\"010" +
                 bus + ":00\" class=\"0x020700\" link_speed=\"16 GT/s\" link_width=\"16\"/>";
  }
  const std::string cloud =
      "<system version='1'><cpu numaid='0'><pci busid='ff' class='0x060400' link_speed='16 GT/s' "
      "link_width='16'>" +
      functions + "</pci></cpu></system>";
  const Cluster cluster = cluster_of(import_nccl_topology(cloud, "t.xml", "a100-80gb"));
  CHECK(device_count(cluster) == 2);
  CHECK(cluster.levels[0].rails == 2);
  CHECK(cluster.levels[1].link == builtin_links("a100-80gb").inside);
  CHECK_THAT(message_of([&] { import_nccl_topology(cloud, "t.xml", ""); }),
             ContainsSubstring("an input of NCCL (NCCL_TOPO_FILE)"));
}

TEST_CASE("machines that people have are read as they are") {
  const std::string folder = shared_folder() + "/cases/machines/";
  if (!std::filesystem::exists(folder)) SKIP("no shared cases");
  struct Case {
    const char* file;
    const char* device;
    int devices, rails;
    const char* rings;
  };
  for (const Case& each : {Case{"t4_degraded_nvswitch.txt", "h100", 4, 0, "329.6GB/s"},
                           Case{"t21_dgx2_four_of_sixteen.txt", "v100-32gb", 4, 0, "120GB/s"},
                           Case{"t25_four_rails_of_eight_nics.txt", "a100-80gb", 8, 4, "240GB/s"},
                           Case{"t10_pdsh.txt", "a100", 4, 1, "240GB/s"},
                           Case{"t_p2p_then_topo.txt", "a100", 2, 0, "20GB/s"},
                           Case{"t3_single_gpu_4nic.txt", "a100", 1, 1, "230GB/s"}}) {
    INFO(each.file);
    const Machine machine = import_topo(read_file(folder + each.file), each.file, each.device);
    const Cluster cluster = cluster_of(machine);
    CHECK(device_count(cluster) == each.devices);
    CHECK(static_cast<int>(rail_ports(machine).size()) == each.rails);
    CHECK(cluster.levels.back().link.collective == parse_bandwidth(each.rings));
  }
}

TEST_CASE("any bytes are a machine or a sentence") {
  for (const std::string& text : {cube_mesh, switched, pcie, two_in_xml, amd_smi_json()}) {
    for (std::size_t cut = 0; cut < text.size(); cut += 17) {
      std::string broken = text;
      broken[cut] = broken[cut] == '"' ? 'x' : '"';
      for (const ClusterImporter& importer : cluster_importers) {
        INFO(importer.name << " " << cut);
        try {
          validate(cluster_of(importer.import(broken, "f", "a100")));
        } catch (const Error& error) {
          CHECK(error.kind() == ErrorKind::input);
        }
      }
    }
  }
}
