// What every row of layer_makers owes, over all combinations of a transformer's options: gradients,
// memory, separability.

#include "executor/layers/layers.hpp"

#include <numbers>
#include <set>

#include "executor/layers/parts.hpp"
#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"
#include "tests/catch.hpp"
#include "tests/executor/small_network.hpp"
#include "tests/executor/stepped_models.hpp"
#include "tests/executor/values.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

using Norm = Transformer::Norm;
using FeedForward = Transformer::FeedForward;
using Position = Transformer::Position;

std::vector<Model> stepped_models() {
  const SteppedShape shape{
      .hidden = 8, .heads = 4, .head_width = 4, .vocabulary = 11, .positions = 5};
  SteppedShape other = shape;
  other.key_value_heads = 4;
  other.tied = false;
  other.bias = true;
  std::vector<Model> models{stepped_model(shape), stepped_model(other)};
  for (const std::string family :
       {"olmo2", "opt", "gpt_neox", "mixtral", "qwen3_moe", "gemma3_text"}) {
    for (SteppedShape each : {shape, other}) {
      each.family = family;
      if (family == "gpt_neox") each.hidden = 16;  // heads of 4, of which 2 are turned
      if (family == "gemma3_text") each.blocks = 2;
      models.push_back(stepped_model(each));
    }
  }
  return models;
}

// Both values of every option, in all combinations: 2 * 2 * 3 * 2 * 2 * 2 models of 1 block.
std::vector<Model> small_models() {
  std::vector<Model> models;
  for (Norm norm : {Norm::layer_norm, Norm::rms_norm}) {
    for (FeedForward activation : {FeedForward::gelu, FeedForward::swiglu}) {
      for (Position position : {Position::learned, Position::rotary, Position::none}) {
        for (std::int64_t key_value_heads : {4, 2}) {
          for (bool tied : {true, false}) {
            for (bool bias : {true, false}) {
              const Transformer transformer{.hidden = 8,
                                            .heads = 4,
                                            .key_value_heads = key_value_heads,
                                            .head_width = 2,
                                            .feed_forward = 12,
                                            .vocabulary = 11,
                                            .positions = 6,
                                            .norm = norm,
                                            .activation = activation,
                                            .position = position,
                                            .attention_bias = bias,
                                            .output_bias = bias,
                                            .feed_forward_bias = bias,
                                            .tied_head = tied,
                                            .rotary_base = 100};
              models.push_back(make_transformer("small", transformer, 1, 5));
            }
          }
        }
      }
    }
  }
  for (Model& stepped : stepped_models()) models.push_back(std::move(stepped));
  for (Model& network : small_networks()) models.push_back(std::move(network));
  return models;
}

std::vector<Model> some_models() {
  auto models = small_networks();
  for (Model& stepped : stepped_models()) models.push_back(std::move(stepped));
  const auto all = small_models();
  models.insert(models.end(), {all.front(), all[all.size() / 2 + 11], all[all.size() - 9]});
  return models;
}

// The layers of these models that the row makes; at least one, so that a new row is tested.
struct Case {
  Model model;
  int index = 0;
};
std::vector<Case> cases_of(const LayerMaker& maker, const std::vector<Model>& models) {
  std::vector<Case> cases;
  for (const Model& model : models) {
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (model.layers[i].kind == maker.kind) cases.push_back({model, static_cast<int>(i)});
    }
  }
  if (cases.empty()) FAIL("no test model has a layer of kind " << to_string(maker.kind));
  return cases;
}

// The numbers of each sample that go into a layer and come out of it, and what the samples are.
struct Flow {
  std::int64_t sequence = 1;
  std::int64_t tokens = 1;
  std::int64_t classes = 1;
  std::int64_t input = 0;   // 0 for the first layer
  std::int64_t output = 0;  // 0 for the last
};

Flow flow_of(const Case& test_case) {
  const Model& model = test_case.model;
  const auto index = static_cast<std::size_t>(test_case.index);
  Flow flow;
  if (index > 0) flow.input = model.layers[index - 1].output_elements;
  if (index + 1 < model.layers.size()) flow.output = model.layers[index].output_elements;
  if (model.transformer) {
    flow.sequence = flow.tokens = model.sequence;
    flow.classes = model.transformer->vocabulary;
  } else {
    flow.tokens = model.layers.front().image->input.elements();
    flow.classes = model.layers.back().output_elements;
  }
  return flow;
}

/// ReLU, and a choice of experts.
bool has_kinks(const Model& model) {
  return std::ranges::any_of(model.layers, [&](const Layer& layer) {
    const auto form = trained_form(*model.transformer, layer);
    return form && (form->relu || form->experts);
  });
}

// One layer with weights, samples and an input, all from noise.
class Bench {
 public:
  Bench(const Case& test_case, Precision precision, std::int64_t count = 2)
      : layer(make_layer(test_case.model, test_case.index)),
        smooth(test_case.model.transformer.has_value()),
        kinks(smooth && has_kinks(test_case.model)) {
    const Flow flow = flow_of(test_case);
    for (const ParameterSpec& spec : layer->parameters()) {
      const auto seed = static_cast<unsigned>(100 + parameters.size());
      const double mean = spec.initialization.kind == Initialization::Kind::ones ? 1 : 0;
      parameters.push_back({spec, noise(*backend, spec.shape, precision, seed, mean, 0.4), {}});
      parameters.back().gradient = backend->allocate(spec.shape, precision);
      backend->zero(parameters.back().gradient);
    }
    const std::int64_t most = smooth ? flow.classes : 256;
    for (std::int64_t i = 0; i < count * flow.tokens; ++i) {
      tokens.push_back(static_cast<std::int32_t>((7 * i + 3) % most));
    }
    for (std::int64_t i = 0; i < count * flow.sequence; ++i) {
      targets.push_back(static_cast<std::int32_t>((5 * i + 1) % flow.classes));
    }
    samples = {.count = count,
               .sequence = flow.sequence,
               .tokens = tokens,
               .targets = targets,
               .loss_scale = 1.0 / static_cast<double>(count * flow.sequence)};
    const auto noise_of = [&](std::int64_t elements, unsigned seed) {
      return noise(*backend, {count, flow.sequence, elements / flow.sequence}, precision, seed);
    };
    if (flow.input > 0) input = noise_of(flow.input, 1);
    if (flow.output > 0) output_gradient = noise_of(flow.output, 2);
  }
  Bench(const Bench&) = delete;

  Tensor forward() { return layer->forward(*backend, parameters, samples, input, saved); }
  Tensor backward_input() {
    return layer->backward_input(*backend, parameters, samples, input, output_gradient, saved);
  }
  void backward_weight() { layer->backward_weight(*backend, parameters, samples, input, saved); }

  // What the gradients are gradients of: the mean loss, or the output's product with its gradient.
  double objective() {
    Saved unused;
    const Tensor output = layer->forward(*backend, parameters, samples, input, unused);
    if (output.empty()) return unused.loss * samples.loss_scale;
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(output.elements()); ++i) {
      sum += value(output, i) * value(output_gradient, i);
    }
    return sum;
  }

  // Central differences of fourth order of the objective with respect to a tensor.
  Values differences(Tensor& tensor) {
    // A longer step would jump over kinks.
    const double step = smooth && !kinks ? 2e-3 : 1e-5;
    Values result;
    for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.elements()); ++i) {
      const double start = value(tensor, i);
      const auto at = [&](double shift) {
        set(tensor, i, start + shift * step);
        return objective();
      };
      result.push_back((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step));
      set(tensor, i, start);
    }
    return result;
  }

  std::unique_ptr<Backend> backend = make_cpu_backend();
  std::unique_ptr<TrainableLayer> layer;
  bool smooth;
  bool kinks;
  std::vector<Parameter> parameters;
  std::vector<std::int32_t> tokens, targets;
  Samples samples;
  Tensor input;
  Tensor output_gradient;
  Saved saved;
};

Bytes saved_bytes(const Saved& saved) {
  Bytes bytes = 0;
  for (const Tensor& tensor : saved.tensors) bytes += tensor.bytes();
  return bytes;
}

// Everything one pass over two microbatches leaves behind.
struct Outcome {
  std::vector<Tensor> tensors;
  std::vector<double> losses;
};

// F I W of the first microbatch, then of the second; or all F, all I, all W.
Outcome two_microbatches(const Case& test_case, Precision precision, bool separated) {
  Bench bench(test_case, precision);
  Outcome outcome;
  const std::vector inputs{
      bench.input,
      bench.input.empty() ? Tensor{} : noise(*bench.backend, bench.input.shape, precision, 5)};
  std::vector<Saved> saved(2);
  const auto forward = [&](std::size_t m) {
    outcome.tensors.push_back(
        bench.layer->forward(*bench.backend, bench.parameters, bench.samples, inputs[m], saved[m]));
    outcome.losses.push_back(saved[m].loss);
  };
  const auto input = [&](std::size_t m) {
    outcome.tensors.push_back(bench.layer->backward_input(*bench.backend, bench.parameters,
                                                          bench.samples, inputs[m],
                                                          bench.output_gradient, saved[m]));
  };
  const auto weight = [&](std::size_t m) {
    bench.layer->backward_weight(*bench.backend, bench.parameters, bench.samples, inputs[m],
                                 saved[m]);
  };
  if (separated) {
    forward(0), forward(1), input(0), input(1), weight(0), weight(1);
    std::swap(outcome.tensors[1], outcome.tensors[2]);
  } else {
    forward(0), input(0), weight(0), forward(1), input(1), weight(1);
  }
  for (const Parameter& parameter : bench.parameters) outcome.tensors.push_back(parameter.gradient);
  return outcome;
}

}  // namespace

TEST_CASE("every layer's gradients are those of its output", "[seconds]") {
  const LayerMaker maker = GENERATE(from_range(layer_makers));
  const std::vector<Case> cases = cases_of(maker, small_models());
  for (std::size_t i = 0; i < cases.size(); i += is_watched ? 5 : 1) {
    Bench bench(cases[i], Precision::float64);
    bench.forward();
    const Tensor input_gradient = bench.backward_input();
    bench.backward_weight();
    if (!bench.input.empty()) {
      CHECK(relative_error(input_gradient, bench.differences(bench.input)) < 1e-7);
    } else {
      CHECK(input_gradient.empty());
    }
    for (Parameter& parameter : bench.parameters) {
      INFO(parameter.spec.name);
      CHECK(relative_error(parameter.gradient, bench.differences(parameter.weight)) < 1e-7);
    }
  }
}

TEST_CASE("every layer computes in float what it computes in double, to float's precision") {
  const LayerMaker maker = GENERATE(from_range(layer_makers));
  for (const Case& test_case : cases_of(maker, small_models())) {
    Bench single(test_case, Precision::float32), twice(test_case, Precision::float64);
    CHECK(relative_error(single.forward(), values(twice.forward())) < 3e-6);
    CHECK(single.saved.loss == Approx(twice.saved.loss).epsilon(1e-6));
    CHECK(relative_error(single.backward_input(), values(twice.backward_input())) < 1e-5);
    single.backward_weight();
    twice.backward_weight();
    for (std::size_t i = 0; i < single.parameters.size(); ++i) {
      INFO(single.parameters[i].spec.name);
      CHECK(relative_error(single.parameters[i].gradient, values(twice.parameters[i].gradient)) <
            1e-5);
    }
  }
}

TEST_CASE("every layer's passes give the same bits together and apart") {
  const LayerMaker maker = GENERATE(from_range(layer_makers));
  const Precision precision = GENERATE(Precision::float32, Precision::float64);
  for (const Case& test_case : cases_of(maker, some_models())) {
    const Outcome together = two_microbatches(test_case, precision, false);
    const Outcome apart = two_microbatches(test_case, precision, true);
    CHECK(together.losses == apart.losses);
    for (std::size_t i = 0; i < together.tensors.size(); ++i) {
      CHECK(bitwise_equal(together.tensors[i], apart.tensors[i]));
    }
  }
}

TEST_CASE("every layer gives back the memory of its passes, and keeps only what it says") {
  const LayerMaker maker = GENERATE(from_range(layer_makers));
  for (const Case& test_case : cases_of(maker, some_models())) {
    Bench bench(test_case, Precision::float32);
    const Bytes before = bench.backend->allocated_bytes();
    Tensor output = bench.forward();
    Bytes own = 0;  // ReLU keeps a share of the output
    for (const Tensor& tensor : bench.saved.tensors) {
      if (tensor.empty() || tensor.storage != output.storage) own += tensor.bytes();
    }
    CHECK(bench.backend->allocated_bytes() == before + output.bytes() + own);
    output = {};
    // The output's gradient, which the layer may keep a share of, is there from the start.
    const Tensor input_gradient = bench.backward_input();
    Bytes kept = 0;
    for (const Tensor& tensor : bench.saved.tensors) {
      if (tensor.storage != bench.output_gradient.storage) kept += tensor.bytes();
    }
    CHECK(bench.backend->allocated_bytes() == before + input_gradient.bytes() + kept);
    bench.backward_weight();
    CHECK(bench.saved.tensors.empty());
    CHECK(bench.backend->allocated_bytes() == before + input_gradient.bytes());
  }
}

TEST_CASE("attention that is dropped comes back with the same bits") {
  const LayerMaker maker = GENERATE(from_range(layer_makers));
  const bool attends =
      maker.kind == LayerKind::transformer || maker.kind == LayerKind::expert_transformer;
  for (const Case& test_case : cases_of(maker, some_models())) {
    Bench kept(test_case, Precision::float32), dropped(test_case, Precision::float32);
    kept.forward();
    dropped.forward();
    const Bytes all = saved_bytes(dropped.saved);
    REQUIRE(dropped.layer->drop_attention(dropped.saved) == attends);
    CHECK((saved_bytes(dropped.saved) < all) == attends);
    dropped.layer->attend_again(*dropped.backend, dropped.samples, dropped.saved);
    CHECK(saved_bytes(dropped.saved) == all);
    CHECK(bitwise_equal(kept.backward_input(), dropped.backward_input()));
    kept.backward_weight();
    dropped.backward_weight();
    for (std::size_t i = 0; i < kept.parameters.size(); ++i) {
      CHECK(bitwise_equal(kept.parameters[i].gradient, dropped.parameters[i].gradient));
    }
  }
}

TEST_CASE("a GPT-2 block keeps 15 hidden widths, the row statistics and log-sums of each token") {
  const Model model = make_transformer("gpt",
                                       {.hidden = 32,
                                        .heads = 4,
                                        .key_value_heads = 4,
                                        .head_width = 8,
                                        .feed_forward = 128,
                                        .vocabulary = 11,
                                        .positions = 16},
                                       1, 16);
  Bench bench({model, 1}, Precision::float32);
  bench.forward();
  // normed1 1, qkv 3, mixed 1, middle 1, normed2 1, inner 4, active 4 = 15; statistics 2 x 2; 4
  // heads' log-sums.
  CHECK(saved_bytes(bench.saved) == 2 * 16 * (15 * 32 + 4 + 4) * 4);
  bench.backward_input();
  // normed1, mixed, middle, normed2 4, active 4; gradients of normed1, qkv 3, middle, normed2,
  // inner 4, y 1.
  CHECK(saved_bytes(bench.saved) == 2 * 16 * (19 * 32 + 4) * 4);
}

TEST_CASE("layers hold as many parameters as the model says") {
  for (const std::string& name : builtin_models()) {
    const Model model = builtin_model(name);
    if (!can_be_trained(model)) continue;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      std::int64_t count = 0;
      for (const ParameterSpec& spec : make_layer(model, static_cast<int>(i))->parameters()) {
        std::int64_t elements = 1;
        for (const std::int64_t extent : spec.shape) elements *= extent;
        const bool tied_copy =
            model.layers[i].kind == LayerKind::head && spec.name == "embedding.token.weight";
        if (!tied_copy) count += elements;
      }
      INFO(name << " " << model.layers[i].name);
      CHECK(count == model.layers[i].parameters);
    }
  }
}

TEST_CASE("parameter names are unique in a model, but for the tied table") {
  for (const Model& model : small_models()) {
    if (!model.transformer) continue;
    std::multiset<std::string> names;
    for (int i = 0; i < static_cast<int>(model.layers.size()); ++i) {
      for (const ParameterSpec& spec : make_layer(model, i)->parameters()) names.insert(spec.name);
    }
    for (const std::string& name : names) {
      const bool tied = model.transformer->tied_head && name == "embedding.token.weight";
      CHECK(names.count(name) == (tied ? 2 : 1));
    }
    CHECK(names.contains("block.0.attention.qkv.weight"));
  }
}

TEST_CASE("what the executor cannot train is refused in words") {
  const auto refused = [](const Model& model, int index) {
    try {
      make_layer(model, index);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  const Model resnet = builtin_model("resnet50");
  CHECK_THAT(refused(resnet, 0), ContainsSubstring("numbers of its images are not known"));
  CHECK_THAT(refused(resnet, 6), ContainsSubstring("kinds that can be trained: embedding, "));
  CHECK_THAT(refused(builtin_model("bert-large"), 1), ContainsSubstring("causal"));
  Transformer relu = *builtin_model("tiny-gpt").transformer;
  relu.untrainable = "its activation_function is \"relu\"";
  CHECK_THAT(refused(make_transformer("r", relu, 1, 8), 1), ContainsSubstring("is \"relu\""));
}

TEST_CASE("numbers of images that contradict each other are refused in words") {
  const auto refused = [](const Model& model, int index) {
    try {
      make_layer(model, index);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  const Model good = small_networks().front();
  Model model = good;
  model.layers[0].image->kernel = 2;
  CHECK_THAT(refused(model, 0), ContainsSubstring("kernel of odd width"));
  model = good;
  model.layers[0].parameters += 1;
  CHECK_THAT(refused(model, 0), ContainsSubstring("has 58 parameters, but its image needs 57"));
  CHECK_THAT(refused(good, 1), ContainsSubstring("not refused"));
  model.layers[0].image->output.channels = 4;
  CHECK_THAT(refused(model, 1), ContainsSubstring("not what the layer before it hands on"));
  model = good;
  model.layers[1].image->kernel = 3;
  CHECK_THAT(refused(model, 1), ContainsSubstring("divides the size by its kernel"));
  model = good;
  model.layers[2].output_elements = 9;
  CHECK_THAT(refused(model, 2), ContainsSubstring("hands on 9 elements, but its image has 8"));
  model = good;
  model.edges.push_back({0, 2});
  CHECK_THAT(refused(model, 2), ContainsSubstring("does not read exactly the layer before"));
  model = good;
  model.layers.back().image->relu = true;
  CHECK_THAT(refused(model, 7), ContainsSubstring("a dense one without ReLU"));
}

TEST_CASE("Llama 3.1 turns fast pairs as before, slow ones slower, and fades between") {
  Transformer transformer = *builtin_model("llama3.2-1b").transformer;
  const std::vector<double> scaled = rotary_frequencies(transformer);
  transformer.rotary_scaling.reset();
  const std::vector<double> plain = rotary_frequencies(transformer);
  REQUIRE(scaled.size() == 32);
  CHECK(plain[0] == 1);
  CHECK(plain[31] == Approx(std::pow(500000.0, -31.0 / 32)));
  for (std::size_t i = 0; i < 32; ++i) {
    const double turns = 8192 * plain[i] / (2 * std::numbers::pi);
    INFO(i << ", which turns " << turns << " times");
    if (turns > 4) {
      CHECK(scaled[i] == plain[i]);
    } else if (turns < 1) {
      CHECK(scaled[i] == plain[i] / 32);
    } else {
      // transformers 4.43: (1 - smooth) f / factor + smooth f
      const double smooth = (turns - 1) / (4 - 1);
      CHECK(scaled[i] == Approx((1 - smooth) * plain[i] / 32 + smooth * plain[i]));
    }
  }
  CHECK(scaled[14] == plain[14]);
  CHECK(scaled[16] != plain[16]);
}

TEST_CASE("start values depend on seed, name and element only") {
  const auto backend = make_cpu_backend();
  const auto drawn = [&](std::string name, std::vector<std::int64_t> shape, Precision precision,
                         std::uint64_t seed) {
    Parameter parameter{{std::move(name), shape, {}}, backend->allocate(shape, precision), {}};
    initialize(parameter, seed);
    return values(parameter.weight);
  };
  const Values a = drawn("a", {1001}, Precision::float64, 1);
  CHECK(drawn("a", {7, 143}, Precision::float64, 1) == a);
  CHECK(drawn("b", {1001}, Precision::float64, 1) != a);
  CHECK(drawn("a", {1001}, Precision::float64, 2) != a);
  const Values rounded = drawn("a", {1001}, Precision::float32, 1);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(rounded[i] == static_cast<float>(a[i]));
  const Values shorter = drawn("a", {500}, Precision::float64, 1);
  CHECK(std::equal(shorter.begin(), shorter.end(), a.begin()));
}

TEST_CASE("normal start values have their mean, deviation and tails") {
  const auto backend = make_cpu_backend();
  const std::int64_t count = 200'000;
  Parameter parameter{
      {"w", {count}, {.deviation = 0.02}}, backend->allocate({count}, Precision::float64), {}};
  initialize(parameter, 42);
  double sum = 0, squares = 0, beyond = 0;
  for (double value : values(parameter.weight)) {
    sum += value / 0.02;
    squares += value * value / 0.0004;
    beyond += std::abs(value) > 0.04 ? 1 : 0;
  }
  CHECK(sum / count == Approx(0).margin(0.01));
  CHECK(squares / count == Approx(1).epsilon(0.015));
  CHECK(beyond / count == Approx(0.0455).epsilon(0.05));
}

TEST_CASE("weights start as GPT-2's do") {
  const Model model = builtin_model("gpt2-124m");
  for (const ParameterSpec& spec : make_layer(model, 1)->parameters()) {
    INFO(spec.name);
    const bool norm = spec.name.find("norm") != std::string::npos;
    if (spec.name.ends_with(".bias")) {
      CHECK(spec.initialization.kind == Initialization::Kind::zeros);
    } else if (norm) {
      CHECK(spec.initialization.kind == Initialization::Kind::ones);
    } else {
      const bool onto_residual =
          spec.name.ends_with("output.weight") || spec.name.ends_with("down.weight");
      CHECK(spec.initialization.deviation == Approx(onto_residual ? 0.02 / std::sqrt(24.0) : 0.02));
    }
  }
}

TEST_CASE("a whole model learns two sequences by heart", "[seconds]") {
  const Model model =
      GENERATE(from_range(std::vector{builtin_model("tiny-gpt"), builtin_model("tiny-llama")}));
  const auto backend = make_cpu_backend();
  const std::size_t layers = model.layers.size();
  std::vector<std::unique_ptr<TrainableLayer>> network;
  std::vector<std::vector<Parameter>> parameters(layers), moments(layers);
  for (std::size_t i = 0; i < layers; ++i) {
    network.push_back(make_layer(model, static_cast<int>(i)));
    for (const ParameterSpec& spec : network[i]->parameters()) {
      const auto zeros = [&] {
        Tensor tensor = backend->allocate(spec.shape, Precision::float32);
        backend->zero(tensor);
        return tensor;
      };
      parameters[i].push_back({spec, zeros(), zeros()});
      initialize(parameters[i].back(), 1);
      moments[i].push_back({spec, zeros(), zeros()});
    }
  }
  std::vector<std::int32_t> tokens, targets;
  for (int i = 0; i < 16; ++i)
    tokens.push_back(i * i % 31), targets.push_back((i + 1) * (i + 1) % 31);
  const Samples samples{
      .count = 2, .sequence = 8, .tokens = tokens, .targets = targets, .loss_scale = 1.0 / 16};
  double loss = 0;
  for (int step = 1; step <= 60; ++step) {
    std::vector<Tensor> inputs(layers + 1);
    std::vector<Saved> saved(layers);
    for (std::size_t i = 0; i < layers; ++i)
      inputs[i + 1] = network[i]->forward(*backend, parameters[i], samples, inputs[i], saved[i]);
    loss = saved.back().loss / 16;
    if (step == 1) CHECK(loss == Approx(std::log(256.0)).epsilon(0.05));
    Tensor gradient;
    for (std::size_t i = layers; i-- > 0;) {
      gradient = network[i]->backward_input(*backend, parameters[i], samples, inputs[i], gradient,
                                            saved[i]);
      network[i]->backward_weight(*backend, parameters[i], samples, inputs[i], saved[i]);
    }
    if (model.transformer->tied_head) {
      backend->add(parameters[0][0].gradient, parameters[layers - 1].back().gradient);
      backend->copy(parameters[layers - 1].back().gradient, parameters[0][0].gradient);
    }
    for (std::size_t i = 0; i < layers; ++i) {
      for (std::size_t p = 0; p < parameters[i].size(); ++p) {
        backend->adamw({.learning_rate = 3e-3}, step, parameters[i][p].gradient,
                       moments[i][p].weight, moments[i][p].gradient, parameters[i][p].weight,
                       parameters[i][p].weight);
        backend->zero(parameters[i][p].gradient);
      }
    }
  }
  CHECK(loss < 0.1);
}
