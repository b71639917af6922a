#include "planner/analysis/changes.hpp"

#include "planner/costs/predict.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/analysis/gpt2_plan.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::vector<Change> read(const std::vector<std::string>& texts) {
  std::vector<Change> changes;
  for (const std::string& text : texts) changes.push_back(read_change(text));
  return changes;
}

Plan after(const LoadedPlan& loaded, const std::vector<std::string>& texts) {
  return changed(loaded, read(texts)).loaded.plan;
}

Duration step(const LoadedPlan& loaded) {
  return predict(loaded.plan, loaded.profile, loaded.cluster).step;
}

Duration step_after(const LoadedPlan& loaded, const std::vector<std::string>& texts) {
  return step(changed(loaded, read(texts)).loaded);
}

}  // namespace

TEST_CASE("a plan with one value set is the plan that has this value") {
  const LoadedPlan plan = gpt2_plan(4, 2, 1);
  SECTION("nothing") {
    CHECK(after(plan, {}) == plan.plan);
  }
  SECTION("the batch") {
    LoadedPlan expected = plan;
    expected.plan.batch = {.global = 32, .microbatch = 2, .microbatches = 16, .sequence = 1024};
    CHECK(after(plan, {"gbs=32"}) == expected.plan);
  }
  SECTION("the microbatch of a replica, and of all") {
    LoadedPlan expected = plan;
    expected.plan.batch = {.global = 64, .microbatch = 8, .microbatches = 8, .sequence = 1024};
    CHECK(after(plan, {"mbs=4"}) == expected.plan);
    CHECK(after(plan, {"microbatch=8"}) == expected.plan);
  }
  SECTION("all stages recompute") {
    LoadedPlan expected = plan;
    for (Stage& stage : expected.plan.stages) stage.recompute = Recompute::full;
    CHECK(after(plan, {"recompute=full"}) == expected.plan);
    CHECK(after(expected, {"recompute=none"}) == plan.plan);
    CHECK(step(expected) == step_after(plan, {"recompute=full"}));
  }
  SECTION("selective recomputation is of transformer layers") {
    const Plan selective = after(plan, {"recompute=selective"});
    CHECK(selective.stages.front().again.front() == Recomputed::none);  // the embedding
    CHECK(selective.stages.front().again.back() == Recomputed::selective);
    CHECK(selective.stages.back().again.back() == Recomputed::none);  // the head
  }
  SECTION("messages beside kernels") {
    const LoadedPlan peers = gpt2_plan(2, 1, 4);
    LoadedPlan sharing = peers;
    sharing.plan.parallelism.sequence = true;
    CHECK(step_after(sharing, {"overlap=tensor"}) < step(sharing));
    CHECK(step_after(sharing, {"overlap=none"}) == step(sharing));
    CHECK_THROWS_WITH(changed(plan, read({"overlap=tensor"})),
                      ContainsSubstring("between tensor-parallel peers, and there are none"));
    CHECK_THROWS_WITH(changed(peers, read({"overlap=tensor"})),
                      ContainsSubstring("without sequence parallelism there are"));
    CHECK_THROWS_WITH(changed(sharing, read({"overlap=experts"})),
                      ContainsSubstring("each device has all of them"));
    CHECK_THROWS_WITH(changed(sharing, read({"overlap=all"})),
                      ContainsSubstring("expected one of none, tensor, experts"));
    CHECK_THROWS_WITH(changed(sharing, read({"overlap=tensor", "kernels=torch"})),
                      ContainsSubstring("layers have PyTorch's kernels"));
  }
  SECTION("modules of Megatron-LM's layers in place of attention") {
    const Plan norms = after(plan, {"recompute=selective", "recompute-modules=layernorm"});
    LoadedPlan expected = plan;
    expected.plan = after(plan, {"recompute=selective"});
    expected.plan.kernels.again.add(LayerModule::norms);
    CHECK(norms == expected.plan);
    CHECK(step(expected) > step(plan));
    CHECK_THROWS_WITH(changed(plan, read({"recompute-modules=layernorm"})),
                      ContainsSubstring("no stage recomputes selectively"));
    CHECK_THROWS_WITH(changed(expected, read({"recompute-modules=moe"})),
                      ContainsSubstring("no layer of gpt2-774m has moe"));
    CHECK_THROWS_WITH(changed(expected, read({"kernels=torch"})),
                      ContainsSubstring("layers have PyTorch's kernels"));
  }
  SECTION("sharding, precision and sequence") {
    LoadedPlan expected = plan;
    expected.plan.optimizer.sharding = Sharding::zero1;
    expected.plan.precision = Precision::float32;
    expected.plan.batch.sequence = 512;
    CHECK(after(plan, {"sharding=zero1", "precision=fp32", "seq=512"}) == expected.plan);
  }
  SECTION("whose kernels layers have") {
    LoadedPlan expected = plan;
    expected.plan.kernels.framework = Framework::torch;
    CHECK(after(plan, {"kernels=fsdp"}) == expected.plan);
    CHECK(step_after(plan, {"kernels=torch"}) == step(expected));
    CHECK(step(expected) != step(plan));
    LoadedPlan measured = plan;
    measured.profile.entries.emplace_back();
    CHECK_THROWS_WITH(changed(measured, read({"kernels=torch"})),
                      Catch::Contains("these layers were measured"));
    CHECK_THROWS_WITH(changed(measured, read({"cuda-graphs=layers"})),
                      Catch::Contains("these layers were measured"));
  }
  SECTION("what the host sends at once, and what brings tokens to experts") {
    LoadedPlan expected = plan;
    expected.plan.kernels.graphs = CudaGraphs::layers;
    CHECK(after(plan, {"cuda-graphs=layers"}) == expected.plan);
    CHECK(step_after(plan, {"cuda-graphs=layers"}) <= step(plan));
    CHECK_THROWS_WITH(changed(plan, read({"dispatcher=deepep"})),
                      Catch::Contains("this model has none"));
  }
  SECTION("Megatron-LM's loss in one pass") {
    LoadedPlan expected = plan;
    expected.plan.kernels.fused_loss = FusedLoss::te;
    CHECK(after(plan, {"fused-loss=te"}) == expected.plan);
    CHECK(step_after(plan, {"fused-loss=te"}) < step(plan));
    CHECK(after(plan, {"fused-loss=none"}) == plan.plan);
    CHECK_THROWS_WITH(changed(plan, read({"fused-loss=te", "kernels=torch"})),
                      Catch::Contains("PyTorch's kernels; leave one away"));
    CHECK_THROWS_WITH(changed(plan, read({"fused-loss=native", "precision=fp32"})),
                      Catch::Contains("rounds gradients to bf16, and layers compute in fp32"));
    CHECK(after(plan, {"fused-loss=native", "precision=bf16"}).kernels.fused_loss ==
          FusedLoss::native);
  }
  SECTION("who scales what is rounded to fp8, where it is") {
    CHECK_THROWS_WITH(changed(plan, read({"fp8-recipe=delayed"})),
                      Catch::Contains("layers compute in"));
  }
}

TEST_CASE("a change of degrees gives the plan that has these degrees") {
  SECTION("tensor-parallel peers are taken from replicas; a replica keeps its microbatch") {
    CHECK(after(gpt2_plan(2, 4, 1), {"tp=2"}) == gpt2_plan(2, 2, 2).plan);
    CHECK(after(gpt2_plan(2, 2, 2), {"tensor-parallel=1"}) == gpt2_plan(2, 4, 1).plan);
  }
  SECTION("replicas are set by themselves") {
    const Plan plan = after(gpt2_plan(4, 2, 1), {"dp=1"});
    CHECK(plan.stages.front().devices == std::vector<std::vector<int>>{{0}});
    CHECK(plan.stages.back().devices == std::vector<std::vector<int>>{{3}});
    CHECK(plan.batch.microbatches == 64);
  }
  SECTION("other numbers of stages have layers cut anew, none of which is lost") {
    const ChangedPlan found = changed(gpt2_plan(4, 2, 1), read({"pp=8"}));
    const Plan& plan = found.loaded.plan;
    REQUIRE(plan.stages.size() == 8);
    CHECK(plan.stages.front().layers.first == 0);
    CHECK(plan.stages.back().layers.end == 38);
    CHECK(plan.batch.microbatch == 1);
    CHECK(found.notes.size() == 1);
  }
  SECTION("interleaved: stages of one device are on its devices") {
    const Plan plan = after(gpt2_plan(4, 2, 1), {"schedule=interleaved"});
    CHECK(plan.schedule.virtual_stages == 2);
    REQUIRE(plan.stages.size() == 8);
    CHECK(plan.stages[5].devices == gpt2_plan(4, 2, 1).plan.stages[1].devices);
    const Plan vee = after(gpt2_plan(4, 2, 1), {"schedule=zb-v"});
    REQUIRE(vee.stages.size() == 8);
    CHECK(vee.stages[5].devices == gpt2_plan(4, 2, 1).plan.stages[2].devices);
  }
}

TEST_CASE("a change of the cluster is the plan on that cluster") {
  const LoadedPlan plan = gpt2_plan(4, 2, 1, "2x4xa100@100Gb/s");
  CHECK(step_after(plan, {"link0=50%"}) == step(gpt2_plan(4, 2, 1, "2x4xa100@50Gb/s")));
  CHECK(step_after(plan, {"link0=25Gb/s"}) == step(gpt2_plan(4, 2, 1, "2x4xa100@25Gb/s")));
  CHECK(step_after(plan, {"link0=100%"}) == step(plan));
  CHECK(step_after(plan, {"link0.latency=1ms"}) > step(plan));
  CHECK(changed(plan, read({"link1=10GB/s"})).changes_cluster);
  const ChangedPlan slow = changed(plan, read({"device5.slow=20%"}));
  REQUIRE(slow.slow.size() == 1);
  CHECK(slow.slow.front().device == 5);
}

TEST_CASE("balanced stages take no longer than those there were") {
  LoadedPlan plan = gpt2_plan(4, 2, 1);
  plan.plan.stages[0].layers.end = 20;
  plan.plan.stages[1].layers = {20, 24};
  plan.plan.stages[2].layers = {24, 28};
  plan.plan.stages[3].layers.first = 28;
  const LoadedPlan better = changed(plan, {}, true).loaded;
  CHECK(better.plan.stages.size() == 4);
  CHECK(step(better) < step(plan));
  CHECK(step(changed(better, {}, true).loaded) <= step(better));
}

TEST_CASE("what cannot be changed says which value, and why") {
  const LoadedPlan plan = gpt2_plan(4, 2, 1);
  const auto complaint = [&](const std::vector<std::string>& texts) {
    try {
      changed(plan, read(texts));
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("none");
  };
  using Catch::Contains;
  CHECK_THAT(complaint({"tp"}), Contains("expected KEY=VALUE such as tp=4, found \"tp\""));
  CHECK_THAT(complaint({"pt=2"}), Contains("unknown change \"pt\""));
  CHECK_THAT(complaint({"tp=3"}), Contains("pp 4 x tp 3 x cp 1 = 12 does not divide the plan's 8"));
  CHECK_THAT(complaint({"tp=two"}), Contains("--set tp: expected an integer from 1 to"));
  CHECK_THAT(complaint({"dp=4"}), Contains("are 16 devices; 8xa100 has 8"));
  CHECK_THAT(complaint({"tp=2", "tp=4"}), Contains("--set tp is given twice"));
  CHECK_THAT(complaint({"batch=7"}), Contains("no whole number of microbatches of 2"));
  CHECK_THAT(complaint({"mbs=1", "microbatch=2"}), Contains("say the same twice"));
  CHECK_THAT(complaint({"vpp=20"}), Contains("80 stages (pp 4 x vpp 20) are more than the 38"));
  CHECK_THAT(complaint({"recompute=some"}), Contains("unknown way to recompute \"some\""));
  CHECK_THAT(complaint({"schedule=zbv2"}), Contains("unknown schedule"));
  CHECK_THAT(complaint({"link3=1GB/s"}), Contains("8xa100 has link0 only"));
  CHECK_THAT(complaint({"link0.speed=1GB/s"}), Contains("unknown property of a link"));
  CHECK_THAT(complaint({"link0=-5%"}), Contains("expected a percentage above 0%"));
  CHECK_THAT(complaint({"device9.slow=20%"}), Contains("8xa100 has the devices 0 to 7"));
  CHECK_THAT(complaint({"device1=20%"}), Contains("device1.slow=20%"));
  LoadedPlan uneven = plan;
  uneven.plan.stages.back().devices.pop_back();
  CHECK_THROWS_WITH(changed(uneven, read({"tp=2"})),
                    Contains("stages have different numbers of replicas or peers"));
  CHECK(changed(uneven, read({"batch=128"})).loaded.plan.batch.microbatches == 64);
}
