// Costs that searches tell each other are those that each would find.

#include "planner/costs/layer_cost_memo.hpp"

#include <algorithm>

#include "planner/costs/cost_book.hpp"
#include "profiles/cluster.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

namespace {

/// Settings that differ in one thing each from the first.
std::vector<CostBookSetting> settings_of_books() {
  const CostBookSetting first{.precision = Precision::bfloat16,
                              .sequence = 2048,
                              .parallelism = {.sequence = true, .expert = 2}};
  std::vector<CostBookSetting> all(14, first);
  all[1].precision = Precision::float32;
  all[2].sequence = 4096;
  all[3].kernels.framework = Framework::torch;
  all[4].parallelism.sequence = false;
  all[5].parallelism.context = 2;
  all[6].parallelism.expert = 4;
  all[7].parallelism.expert_tensor = 1;
  all[8].parallelism.expert_load = 1.5;
  all[9].kernels.dispatcher = Dispatcher::deepep;
  all[10].kernels.graphs = CudaGraphs::layers;
  all[12].kernels.overlap.experts = true;
  all[13].kernels.router_fusion = RouterFusion::on;
  all[11].kernels.again.add(LayerModule::norms);
  return all;
}

/// A node of H100s and one of A100s.
Cluster mixed_cluster() {
  Cluster cluster = parse_cluster("2x4xh100");
  cluster.kinds.push_back(builtin_device_kind("a100"));
  std::fill(cluster.devices.begin() + 4, cluster.devices.end(), 1);
  return cluster;
}

}  // namespace

TEST_CASE("what books tell each other of layers' costs is what each would find") {
  Profile profile;
  profile.model = builtin_model("mixtral-8x7b");
  const Cluster cluster = mixed_cluster();
  const auto memo = std::make_shared<LayerCostMemo>(profile, cluster);
  REQUIRE(memo->is_of(profile, cluster));
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero3}) {
    for (CostBookSetting setting : settings_of_books()) {
      setting.sharding = sharding;
      CostBook alone(profile, cluster, setting);
      CostBook told(profile, cluster, setting, memo);
      for (const int kind : {0, 1}) {
        for (const int peers : {4, 8}) {
          for (const std::int64_t rows : {1, 2}) {
            if (peers / setting.parallelism.context < 2) continue;
            CHECK(told.entry_for(kind, 2, rows, peers) == alone.entry_for(kind, 2, rows, peers));
            const LayerRange all{0, static_cast<int>(profile.model.layers.size())};
            CHECK(told.table(kind, 2, rows, peers).forward(all) ==
                  alone.table(kind, 2, rows, peers).forward(all));
          }
        }
      }
    }
  }
}

TEST_CASE("a memo is of one model and one cluster, but for what its devices hold") {
  Profile profile;
  profile.model = builtin_model("tiny-gpt");
  const Cluster cluster = parse_cluster("2x4xh100");
  const LayerCostMemo memo(profile, cluster);
  Cluster other = cluster;
  other.kinds.front().memory /= 2;
  CHECK(memo.is_of(profile, other));
  other.levels.front().link.latency += Duration{1};
  CHECK_FALSE(memo.is_of(profile, other));
  Profile larger = profile;
  larger.model = builtin_model("tiny-llama");
  CHECK_FALSE(memo.is_of(larger, cluster));
  Profile measured = profile;
  measured.entries.emplace_back();
  CHECK_FALSE(memo.is_of(measured, cluster));
}
