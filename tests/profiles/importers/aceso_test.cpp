#include <filesystem>

#include "profiles/importers.hpp"
#include "profiles/importers/aceso_database.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr Bytes mebibyte = 1 << 20;

const std::string header =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,"
    "fwd_reserved,bwd_reserved\n";

const std::string table = header +
                          "conv1,10.5,30,0.5,4,2,3,1,5\n"
                          "block-0-0-conv2,20,40.001,4,2,0,9,0,0\r\n"
                          "fc,5,5,2,0,1,1,0,0\n";

std::string complaint_about_table(const std::string& content,
                                  const std::string& file = "resnet_2B_mbs16_tp1_algo0.csv") {
  return message_of([&] { import_aceso(content, file); });
}

}  // namespace

TEST_CASE("a table of Aceso's becomes layers in order, in bytes and nanoseconds") {
  CHECK(looks_like_aceso(table));
  CHECK_FALSE(looks_like_aceso("data_size(MB),time(ms)\n1,2\n"));
  const Profile profile = import_aceso(table, "nowhere/resnet_2B_mbs16_tp1_algo0.csv");
  CHECK_NOTHROW(validate(profile));
  CHECK(profile.model.name == "resnet_2B");
  REQUIRE(profile.model.layers.size() == 3);
  CHECK(profile.model.layers[1].name == "block-0-0-conv2");
  CHECK(profile.model.layers[0].parameters == 2 * mebibyte / 4);
  CHECK(profile.model.edges == std::vector<Edge>{{0, 1}, {1, 2}});
  REQUIRE(profile.entries.size() == 1);
  CHECK(profile.entries[0].setting ==
        CostSetting{.device = "generic", .microbatch = 16, .precision = Precision::float32});
  const auto& costs = profile.entries[0].layers;
  CHECK(costs[0].forward == 10500ns);
  CHECK(costs[0].backward_weight == 15us);
  CHECK(costs[1].backward() == 40001ns);
  CHECK(costs[1].backward_weight == 0ns);
  CHECK(costs[0].gradients == 2 * mebibyte);
  CHECK(costs[0].optimizer == 4 * mebibyte);
  CHECK(costs[0].workspace == 5 * mebibyte);
  CHECK(costs[0].output == 4 * mebibyte);
  // Of the output of 4 MiB, 3 are its own; the second makes 9, 2 of which are its output.
  CHECK(costs[0].saved == 0);
  CHECK(costs[0].output_freed == 1 * mebibyte);
  CHECK(costs[1].saved == 7 * mebibyte);
  CHECK(costs[1].output_freed == 0);
  CHECK(costs[2].saved == 1 * mebibyte);
  CHECK(profile.warnings.empty());
}

TEST_CASE("weights' gradients that Aceso's profiler did not ask for are added") {
  const std::string products = header +
                               "enc-embedding,10,40,1,1,1,1,0,0\n"
                               "enc-attention-qkv,100,105,1,3,1,3,0,0\n"
                               "enc-attention-softmax,50,60,3,3,0,2,0,0\n"
                               "enc-attention-dense,100,80,3,1,1,1,0,0\n";
  const Profile profile = import_aceso(products, "resnet_2B_mbs1_tp1_algo0.csv");
  REQUIRE(profile.warnings.size() == 1);
  CHECK_THAT(profile.warnings[0], ContainsSubstring("their weights' gradients are missing"));
  const auto& costs = profile.entries[0].layers;
  CHECK(costs[0].backward() == 40us);
  CHECK(costs[0].provenance == Provenance::measured);
  CHECK(costs[1].backward_input == 105us);
  CHECK(costs[1].backward_weight == 100us);
  CHECK(costs[1].provenance == Provenance::fitted);
  CHECK(costs[2].backward() == 60us);
  CHECK(costs[3].backward_weight == 80us);
  // The softmax goes back from its output.
  CHECK(costs[1].output_freed == costs[1].output);
  CHECK(costs[2].output_freed == 1 * mebibyte);
}

TEST_CASE("the model's other tables and the bandwidths beside a table of Aceso's come along") {
  const TemporaryFolder folder;
  const std::string file = folder.file("resnet_2B_mbs16_tp1_algo0.csv", table);
  folder.file("resnet_2B_mbs16_tp2_algo0.csv", table);
  folder.file("resnet_2B_mbs8_tp1_algo0.csv", table);
  folder.file("resnet_2B_mbs8_tp1_algo1.csv", "another way to split");
  folder.file("resnet_500M_mbs8_tp1_algo0.csv", "another model");
  folder.file("p2p_intra_node.csv", "1,2,4\n17.5, 24,31\n");
  const AcesoDatabase database = read_aceso_database(table, file);
  REQUIRE(database.tables.size() == 3);
  CHECK(database.tables[0].microbatch == 8);
  CHECK(database.tables[2].tensor_parallel == 2);
  CHECK(database.between_devices == std::vector<double>{17.5, 24, 31});
  CHECK(database.between_nodes == database.between_devices);
  const Profile profile = load_profile(file).profile;
  REQUIRE(profile.entries.size() == 3);
  CHECK(profile.entries[2].setting.tensor_parallel == 2);
  folder.file("p2p_inter_node.csv", "1,2,8\n3,4,5\n");
  CHECK_THAT(message_of([&] { read_aceso_database(table, file); }),
             ContainsSubstring("p2p_inter_node.csv:1:1: expected the message sizes 1, 2, 4"));
  folder.file("p2p_inter_node.csv", "1,2,4\n3,4,0\n");
  CHECK_THAT(message_of([&] { read_aceso_database(table, file); }),
             ContainsSubstring("p2p_inter_node.csv:2:1: expected GB/s above 0"));
  folder.file("resnet_2B_mbs8_tp1_algo0.csv", header + "conv1,1,1,1,1,1,1,1,1\n");
  CHECK_THAT(message_of([&] { read_aceso_database(table, file); }),
             ContainsSubstring("mbs8_tp1_algo0.csv:1:1: expected the same operators as in"));
}

TEST_CASE("what Aceso's tables leave open is asked for, with the place") {
  CHECK_THAT(
      complaint_about_table(table, "times.csv"),
      ContainsSubstring("times.csv:1:1: expected a file name MODEL_SIZE_mbsSAMPLES_tpDEGREE"));
  CHECK_THAT(complaint_about_table(table, "resnet_2B_mbs16_tp1_algo1.csv"),
             ContainsSubstring("expected a file name"));
  CHECK_THAT(
      complaint_about_table(table, "gpt_9B_mbs1_tp1_algo0.csv"),
      ContainsSubstring("how many layers gpt_9B has is in no table; expected one of gpt_350M"));
  CHECK_THAT(complaint_about_table(table, "gpt_13B_mbs1_tp1_algo0.csv"),
             ContainsSubstring("expected the 16 operators of gpt, found 3"));
  CHECK_THAT(complaint_about_table(header), ContainsSubstring("expected an operator, found none"));
  CHECK_THAT(complaint_about_table("op_name,forward-compute,weights\nconv1,1,1\n"),
             ContainsSubstring("algo0.csv:1:1: expected the columns op_name,forward-compute,"));
  CHECK_THAT(complaint_about_table(header + "conv1,1,2\n"),
             ContainsSubstring("algo0.csv:2:1: expected 9 columns"));
  CHECK_THAT(complaint_about_table(header + "conv1,1,-2,1,1,1,1,1,1\n"),
             ContainsSubstring("algo0.csv:2:1: backward-compute: expected a number from 0 to"));
  CHECK_THAT(complaint_about_table(table + "fc,1,1,1,1,1,1,1,1\n"),
             ContainsSubstring("algo0.csv:5:1: operator \"fc\" is listed twice"));
}

TEST_CASE("Aceso's published models have the layers of its code") {
  const std::string folder = shared_folder() + "/data/aceso/profiled-time-eurosys/";
  if (!std::filesystem::exists(folder)) SKIP("no published data at " + folder);
  struct Published {
    std::string file;
    std::size_t layers, entries;
  };
  for (const Published& published :
       {Published{"gpt_1_3B_mbs1_tp1_algo0.csv", 1 + 13 * 24 + 2, 16},
        Published{"gpt_13B_mbs8_tp4_algo0.csv", 1 + 13 * 40 + 2, 16},
        Published{"t5_770M_mbs1_tp1_algo0.csv", 15 + 13 * 23 + 1 + 21 * 24 + 2, 16},
        Published{"resnet_2B_mbs16_tp1_algo0.csv", 134, 16}}) {
    INFO(published.file);
    const Profile profile = load_profile(folder + published.file).profile;
    CHECK(profile.model.layers.size() == published.layers);
    CHECK(profile.entries.size() == published.entries);
  }
  const Profile gpt = load_profile(folder + "gpt_1_3B_mbs1_tp1_algo0.csv").profile;
  CHECK(gpt.model.layers[14].name == "enc-1st-layernorm.1");
  // 208 + 24 · 96 + 200 MiB of fp16: biases and norms are below the tables' resolution.
  CHECK(parameters(gpt.model) == (208 + 24 * 96 + 200) * mebibyte / 2);
}
