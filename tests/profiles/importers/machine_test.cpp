#include "profiles/machine.hpp"

#include "profiles/cluster_importers.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
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
  CHECK(machine.switched);
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
  CHECK_THAT(complaint(with(two_in_xml, "speed=\"200000\"", "speed=\"0\"")),
             ContainsSubstring("t.xml:13:") && ContainsSubstring("above 0"));
  CHECK_THAT(complaint(with(two_in_xml, "sm=\"80\"", "sm=\"30\"")),
             ContainsSubstring("compute capability 30"));
  CHECK_THAT(complaint("<system version=\"1\"><cpu/></system>"), ContainsSubstring("no <gpu>"));
  CHECK_THAT(complaint("<graphs/>"), ContainsSubstring("expected <system"));
}

TEST_CASE("any bytes are a machine or a sentence") {
  for (const std::string& text : {cube_mesh, switched, pcie, two_in_xml}) {
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
