#include "executor/measurement/measure.hpp"

#include <atomic>
#include <memory>

#include "executor/measurement/measurement.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"
#include "tests/executor/small_network.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Model small_model() {
  return make_transformer("small",
                          {.hidden = 16,
                           .heads = 2,
                           .key_value_heads = 2,
                           .head_width = 8,
                           .feed_forward = 64,
                           .vocabulary = 40,
                           .positions = 8},
                          3, 8);
}

const MeasureOptions quick{.microbatches = {1, 2}, .repeats = 3, .warm_up = 1, .busy_ranks = 2};

/// Counts the backends made of it. Those behind the layers' only pass messages: the CPU is quicker.
MeasuredDevice stand_in(int for_layers, std::atomic<int>& made) {
  return {.kind = "h200",
          .description = "a stand-in",
          .make_backend = [for_layers, &made](int) -> std::unique_ptr<Backend> {
            if (made++ < for_layers) return std::make_unique<DistantBackend>();
            return make_cpu_backend();
          }};
}

}  // namespace

TEST_CASE("a measured profile has every layer's cost for every microbatch, and says what it is") {
  const Profile profile = measure_profile(small_model(), quick);
  CHECK_NOTHROW(validate(profile));
  CHECK(profile.model == small_model());
  REQUIRE(profile.entries.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const ProfileEntry& entry = profile.entries[i];
    CHECK(entry.setting == CostSetting{.device = "cpu",
                                       .microbatch = quick.microbatches[i],
                                       .sequence = 8,
                                       .precision = Precision::float32});
    REQUIRE(entry.layers.size() == 5);
    for (const LayerCost& cost : entry.layers) {
      CHECK(cost.provenance == Provenance::measured);
      CHECK(cost.forward > Duration{0});
      CHECK(cost.backward_weight > Duration{0});
      CHECK(cost.update > Duration{0});
      CHECK(cost.spread >= 0);
    }
    // Equal blocks were measured once.
    CHECK(entry.layers[1] == entry.layers[2]);
    CHECK(entry.layers[1] == entry.layers[3]);
  }
  CHECK_THAT(profile.source, ContainsSubstring("2 busy threads, OpenBLAS"));
  REQUIRE(profile.hand_over);
  CHECK(profile.hand_over->latency > Duration{0});
  CHECK(profile.hand_over->point_to_point.bytes_per_second > 0);
  CHECK(profile.hand_over->collective.bytes_per_second > 0);
}

TEST_CASE("measured bytes are those of the tensors") {
  const Profile profile = measure_profile(small_model(), quick);
  for (const ProfileEntry& entry : profile.entries) {
    const Bytes tokens = entry.setting.microbatch * 8;
    const LayerCost &embedding = entry.layers[0], &block = entry.layers[1], &head = entry.layers[4];
    CHECK(embedding.saved == 0);
    CHECK(embedding.output == tokens * 16 * 4);
    CHECK(embedding.saved_for_weight == embedding.output);  // its output's gradient
    CHECK(embedding.parameters == (40 + 8) * 16 * 4);
    CHECK(embedding.workspace == 0);
    // 15 hidden widths, two norms' two statistics, a log-sum for each of two heads.
    CHECK(block.saved == tokens * (15 * 16 + 4 + 2) * 4);
    CHECK(block.saved_for_weight == tokens * (19 * 16 + 4) * 4);
    CHECK(block.output == tokens * 16 * 4);
    CHECK(block.parameters == (12 * 16 * 16 + 13 * 16) * 4);
    CHECK(block.workspace > 0);
    // Norm's output, two statistics, logits; then the gradient of the norm's output, too.
    CHECK(head.saved == tokens * (16 + 2 + 40) * 4);
    CHECK(head.saved_for_weight == tokens * (2 * 16 + 2 + 40) * 4);
    CHECK(head.output == 0);
    // The tied table is counted here, too.
    CHECK(head.parameters == (2 * 16 + 40 * 16) * 4);
    for (const LayerCost& cost : entry.layers) {
      CHECK(cost.gradients == cost.parameters);
      CHECK(cost.optimizer == 2 * cost.parameters);
    }
  }
}

TEST_CASE("a device with memory of its own is measured as the CPU is, and named", "[seconds]") {
  MeasureOptions options = quick;
  options.busy_ranks = 0;
  const Profile here = measure_profile(small_model(), options);
  std::atomic<int> made = 0;
  options.device = stand_in(2 * 3 * 2, made);
  const Profile there = measure_profile(small_model(), options);
  CHECK(there.source == "measured on a stand-in");
  REQUIRE(there.entries.size() == here.entries.size());
  for (std::size_t i = 0; i < there.entries.size(); ++i) {
    CHECK(there.entries[i].setting.device == "h200");
    for (std::size_t l = 0; l < there.entries[i].layers.size(); ++l) {
      const LayerCost &far = there.entries[i].layers[l], &near = here.entries[i].layers[l];
      CHECK(far.forward > Duration{0});
      CHECK(far.backward_weight > Duration{0});
      CHECK(far.update > Duration{0});
      CHECK(far.saved == near.saved);
      CHECK(far.saved_for_weight == near.saved_for_weight);
      CHECK(far.output == near.output);
      CHECK(far.parameters == near.parameters);
      CHECK(far.gradients == near.gradients);
      CHECK(far.optimizer == near.optimizer);
    }
  }
  // Three layers, counted and timed, of two microbatches by one rank; two ends of four distances.
  CHECK(made == 2 * 3 * 2 + 2 * 4);
}

TEST_CASE("in bf16 gradients, moments and masters of weights are measured in fp32") {
  MeasureOptions options = quick;
  options.microbatches = {1};
  options.precision = Precision::bfloat16;
  options.busy_ranks = 0;
  std::atomic<int> made = 0;
  options.device = stand_in(3 * 2, made);
  const Profile narrow = measure_profile(small_model(), options);
  for (const LayerCost& cost : narrow.entries.front().layers) {
    CHECK(cost.gradients == 2 * cost.parameters);
    CHECK(cost.optimizer == 3 * 2 * cost.parameters);
    CHECK(cost.update > Duration{0});
  }
  CHECK(narrow.entries.front().layers[1].output == 8 * 16 * 2);
}

TEST_CASE("a measurement takes another sequence length and precision where asked") {
  MeasureOptions options = quick;
  options.microbatches = {1};
  options.sequence = 4;
  options.precision = Precision::float64;
  const Profile profile = measure_profile(small_model(), options);
  CHECK(profile.model.sequence == 4);
  CHECK(profile.entries[0].setting.sequence == 4);
  CHECK(profile.entries[0].setting.precision == Precision::float64);
  CHECK(profile.entries[0].layers[0].output == 4 * 16 * 8);
}

TEST_CASE("a measurement tells how far it is, from nothing on") {
  std::vector<double> done;
  MeasureOptions options = quick;
  options.progress = [&](double part, const std::string& what) {
    done.push_back(part);
    CHECK(!what.empty());
  };
  measure_profile(small_model(), options);
  // Embedding, block, head for two microbatches, then the hand-over.
  REQUIRE(done.size() == 7);
  for (std::size_t i = 0; i < done.size(); ++i)
    CHECK(done[i] == Approx(static_cast<double>(i) / 7));
}

TEST_CASE("networks of images are measured, too") {
  const Model model = small_networks().front();
  MeasureOptions options = quick;
  options.precision = Precision::float32;
  const Profile profile = measure_profile(model, options);
  CHECK_NOTHROW(validate(profile));
  for (const ProfileEntry& entry : profile.entries) {
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      INFO(model.layers[i].name);
      const LayerCost& cost = entry.layers[i];
      const bool last = i + 1 == model.layers.size();
      CHECK(cost.parameters == 4 * model.layers[i].parameters);
      CHECK(cost.forward > Duration{0});
      CHECK(cost.output ==
            (last ? 0 : entry.setting.microbatch * 4 * model.layers[i].output_elements));
    }
    // The convolution keeps its output for ReLU and its pixels as numbers.
    CHECK(entry.layers[0].saved == entry.setting.microbatch * 4 * (48 + 32));
    CHECK(entry.layers[1].saved == 0);
  }
}

TEST_CASE("what cannot be measured is refused in words") {
  CHECK_THROWS_WITH(measure_profile(builtin_model("resnet50"), quick),
                    ContainsSubstring("the numbers of its images are not known") ||
                        ContainsSubstring("the numbers of its layers are not known"));
  MeasureOptions options = quick;
  options.microbatches = {0};
  CHECK_THROWS_AS(measure_profile(small_model(), options), Error);
}

TEST_CASE("a quantile is the value at its place among the others") {
  CHECK(quantile({3, 1, 2}, 0.5) == 2);
  CHECK(quantile({3, 1, 2}, 0.0) == 1);
  CHECK(quantile({3, 1, 2}, 1.0) == 3);
  CHECK(quantile({5}, 0.9) == 5);
}
