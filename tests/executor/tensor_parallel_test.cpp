// Layers split over tensor-parallel peers against whole ones: the same loss, activations and
// gradients to rounding, since sums over peers add in another order than whole products do.

#include <barrier>
#include <functional>
#include <thread>

#include "executor/layers/layers.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/stepped_models.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Peers that are threads of this process and look at each other's tensors.
class Meeting {
 public:
  explicit Meeting(int ranks) : tensors_(static_cast<std::size_t>(ranks)), barrier_(ranks) {}

  int ranks() const { return static_cast<int>(tensors_.size()); }

  void combine(int rank, Tensor& tensor, const std::function<double(double, double)>& join) {
    tensors_[static_cast<std::size_t>(rank)] = &tensor;
    barrier_.arrive_and_wait();
    Values all = values(*tensors_.front());
    for (std::size_t i = 1; i < tensors_.size(); ++i) {
      for (std::size_t e = 0; e < all.size(); ++e) all[e] = join(all[e], value(*tensors_[i], e));
    }
    barrier_.arrive_and_wait();
    for (std::size_t e = 0; e < all.size(); ++e) set(tensor, e, all[e]);
    barrier_.arrive_and_wait();
  }

 private:
  std::vector<Tensor*> tensors_;
  std::barrier<> barrier_;
};

class Peer final : public TensorPeers {
 public:
  Peer(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return meeting_.ranks(); }
  void sum(Backend&, Tensor& tensor) override {
    meeting_.combine(rank_, tensor, [](double a, double b) { return a + b; });
  }
  void largest(Backend&, Tensor& tensor) override {
    meeting_.combine(rank_, tensor, [](double a, double b) { return std::max(a, b); });
  }

 private:
  Meeting& meeting_;
  int rank_;
};

/// One rank, somewhere, that is asked for nothing but its parameters.
class Place final : public TensorPeers {
 public:
  Place(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void sum(Backend&, Tensor&) override {}
  void largest(Backend&, Tensor&) override {}

 private:
  int rank_, ranks_;
};

struct Trained {
  double loss = 0;
  std::vector<Tensor> outputs;  ///< of the layers, then their inputs' gradients
  std::vector<Parameter> parameters;
};

/// Forward and backward of one microbatch through all layers, whole or one peer's parts.
Trained train(const Model& model, Precision precision, TensorPeers* peers) {
  const auto backend = make_cpu_backend();
  std::vector<std::unique_ptr<TrainableLayer>> layers;
  std::vector<std::vector<Parameter>> parameters;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    layers.push_back(make_layer(model, static_cast<int>(i), peers));
    auto& of_layer = parameters.emplace_back();
    for (const ParameterSpec& spec : layers.back()->parameters()) {
      of_layer.push_back({spec, backend->allocate(spec.shape, precision),
                          backend->allocate(spec.shape, precision)});
      initialize(of_layer.back(), 3);
      backend->zero(of_layer.back().gradient);
    }
  }
  std::vector<std::int32_t> tokens, targets;
  for (int i = 0; i < 2 * 6; ++i) {
    tokens.push_back(7 * i % 21);
    targets.push_back((5 * i + 20) % 21);
  }
  const Samples samples{
      .count = 2, .sequence = 6, .tokens = tokens, .targets = targets, .loss_scale = 1.0 / 12};
  Trained trained;
  std::vector<Tensor> inputs(layers.size() + 1);
  std::vector<Saved> saved(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    inputs[i + 1] = layers[i]->forward(*backend, parameters[i], samples, inputs[i], saved[i]);
    trained.outputs.push_back(inputs[i + 1]);
  }
  trained.loss = saved.back().loss;
  Tensor gradient;
  for (std::size_t i = layers.size(); i-- > 0;) {
    gradient =
        layers[i]->backward_input(*backend, parameters[i], samples, inputs[i], gradient, saved[i]);
    trained.outputs.push_back(gradient);
  }
  for (std::size_t i = layers.size(); i-- > 0;) {
    layers[i]->backward_weight(*backend, parameters[i], samples, inputs[i], saved[i]);
  }
  for (auto& of_layer : parameters) {
    for (Parameter& parameter : of_layer) trained.parameters.push_back(std::move(parameter));
  }
  return trained;
}

/// The peers' parts of a tensor put together; `tensor_of` picks weight or gradient. What is whole
/// on all of them must have the same bits.
Values gathered(const std::vector<Trained>& peers, std::size_t index, Tensor Parameter::*tensor) {
  const auto& first = peers.front().parameters[index];
  if (!first.spec.shard) {
    for (const Trained& peer : peers) {
      CHECK(bitwise_equal(peer.parameters[index].*tensor, first.*tensor));
    }
    return values(first.*tensor);
  }
  std::int64_t elements = 1;
  for (const std::int64_t extent : first.spec.shard->whole) elements *= extent;
  Values whole(static_cast<std::size_t>(elements), NAN);
  const std::int64_t columns = first.spec.shard->whole.back();
  for (const Trained& peer : peers) {
    const Parameter& parameter = peer.parameters[index];
    const WeightShard& shard = *parameter.spec.shard;
    const std::int64_t width = parameter.spec.shape.back();
    const std::int64_t rows = (parameter.*tensor).elements() / width;
    std::vector<std::int64_t> places;
    for (const auto& [begin, end] : shard.ranges) {
      for (std::int64_t i = begin; i < end; ++i) places.push_back(i);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < width; ++column) {
        const std::int64_t at = shard.columns
                                    ? row * columns + places[static_cast<std::size_t>(column)]
                                    : places[static_cast<std::size_t>(row)] * columns + column;
        CHECK(std::isnan(whole[static_cast<std::size_t>(at)]));
        whole[static_cast<std::size_t>(at)] =
            value(parameter.*tensor, static_cast<std::size_t>(row * width + column));
      }
    }
  }
  return whole;
}

enum class SplitStyle { gpt2, llama, qwen3, opt };

Model model_of(SplitStyle style, bool tied, std::int64_t key_value_heads) {
  if (style == SplitStyle::qwen3 || style == SplitStyle::opt) {
    return stepped_model({.family = style == SplitStyle::opt ? "opt" : "qwen3",
                          .blocks = 2,
                          .key_value_heads = static_cast<int>(key_value_heads),
                          .inner = 22,
                          .positions = 6,
                          .tied = tied,
                          .bias = style == SplitStyle::opt});
  }
  Transformer shape{.hidden = 16,
                    .heads = 4,
                    .key_value_heads = key_value_heads,
                    .head_width = 4,
                    .feed_forward = 22,
                    .vocabulary = 21,
                    .positions = 6,
                    .tied_head = tied};
  if (style == SplitStyle::llama) {
    shape.norm = Transformer::Norm::rms_norm;
    shape.activation = Transformer::FeedForward::swiglu;
    shape.position = Transformer::Position::rotary;
    shape.feed_forward_bias = false;
  }
  return make_transformer("m", shape, 2, 6);
}

}  // namespace

TEST_CASE("layers split over 2 and 4 peers train as whole ones do, to rounding", "[seconds]") {
  const SplitStyle style =
      GENERATE(SplitStyle::gpt2, SplitStyle::llama, SplitStyle::qwen3, SplitStyle::opt);
  const bool tied = GENERATE(false, true);
  const int ranks = GENERATE(2, 4);
  const Precision precision = GENERATE(Precision::float32, Precision::float64);
  // Sums of a few dozen terms in another order.
  const double tolerance = precision == Precision::float32 ? 3e-6 : 1e-14;
  const Model model = model_of(style, tied, style != SplitStyle::gpt2 && ranks == 2 ? 2 : 4);
  const Trained whole = train(model, precision, nullptr);
  Meeting meeting(ranks);
  std::vector<Trained> peers(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        Peer peer(meeting, rank);
        peers[static_cast<std::size_t>(rank)] = train(model, precision, &peer);
      });
    }
  }
  INFO("style " << static_cast<int>(style) << " over " << ranks << ", " << to_string(precision));
  for (const Trained& peer : peers) {
    CHECK(peer.loss == peers.front().loss);
    CHECK(peer.loss == Approx(whole.loss).epsilon(tolerance));
    REQUIRE(peer.outputs.size() == whole.outputs.size());
    for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
      CHECK(bitwise_equal(peer.outputs[i], peers.front().outputs[i]));
      if (whole.outputs[i].empty()) continue;
      CHECK(relative_error(peer.outputs[i], values(whole.outputs[i])) < tolerance);
    }
  }
  REQUIRE(peers.front().parameters.size() == whole.parameters.size());
  for (std::size_t i = 0; i < whole.parameters.size(); ++i) {
    INFO(whole.parameters[i].spec.name);
    // Drawn by name and element, so equal to the bit.
    CHECK(gathered(peers, i, &Parameter::weight) == values(whole.parameters[i].weight));
    CHECK(relative_error(gathered(peers, i, &Parameter::gradient),
                         values(whole.parameters[i].gradient)) < 3 * tolerance);
  }
}

TEST_CASE("peers hold parts of every matrix, and the whole of norms, positions and summed biases") {
  const Model model =
      model_of(GENERATE(SplitStyle::gpt2, SplitStyle::qwen3, SplitStyle::opt), false, 4);
  std::int64_t parts = 0, whole = 0;
  for (int rank = 0; rank < 4; ++rank) {
    Place place(rank, 4);
    for (int i = 0; i < 4; ++i) {
      for (const ParameterSpec& spec : make_layer(model, i, &place)->parameters()) {
        INFO(spec.name);
        const bool is_whole = spec.name.find("norm") != std::string::npos ||
                              spec.name.find("position") != std::string::npos ||
                              spec.name.ends_with("output.bias") ||
                              spec.name.ends_with("down.bias");
        CHECK(spec.shard.has_value() == !is_whole);
        std::int64_t elements = 1;
        for (const std::int64_t extent : spec.shape) elements *= extent;
        (is_whole ? whole : parts) += elements;
      }
    }
  }
  CHECK(parts + whole / 4 == parameters(model));
}

TEST_CASE("what cannot be split over peers is refused in words") {
  Place place(0, 4);
  CHECK_THAT(message_of([&] { make_layer(model_of(SplitStyle::llama, true, 2), 1, &place); }),
             ContainsSubstring("cannot split layer \"block.0\" of m: its 2 key-value heads do not "
                               "divide among 4 tensor-parallel devices"));
  const Model whole = stepped_model({.family = "olmo2", .key_value_heads = 4});
  CHECK_THAT(message_of([&] { make_layer(whole, 1, &place); }),
             ContainsSubstring("its norms of queries and keys look at all heads"));
  const Model experts = stepped_model({.family = "mixtral", .key_value_heads = 4});
  CHECK_THAT(message_of([&] { make_layer(experts, 1, &place); }),
             ContainsSubstring("its experts are computed whole on one device"));
  CHECK_THAT(message_of([&] { make_layer(builtin_model("vgg-small"), 0, &place); }),
             ContainsSubstring("layers of images are not split over tensor-parallel devices"));
}
