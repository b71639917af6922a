#include "profiles/model.hpp"

#include <rapidcheck.h>

#include <map>
#include <set>

#include "profiles/json.hpp"
#include "profiles/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Layers named a, b, c … with these edges.
Model graph(int layers, std::vector<Edge> edges) {
  Model model;
  model.name = "graph";
  for (int layer = 0; layer < layers; ++layer) {
    model.layers.push_back({.name = std::string(1, static_cast<char>('a' + layer))});
  }
  model.edges = std::move(edges);
  return model;
}

/// A connected graph whose layers are in random order.
Model random_graph() {
  const int layers = *rc::gen::inRange(1, 12);
  std::vector<int> label(static_cast<std::size_t>(layers));
  for (int i = 0; i < layers; ++i) label[static_cast<std::size_t>(i)] = i;
  for (int i = layers - 1; i > 0; --i) {
    std::swap(label[static_cast<std::size_t>(i)],
              label[static_cast<std::size_t>(*rc::gen::inRange(0, i + 1))]);
  }
  std::set<std::pair<int, int>> pairs;
  for (int to = 1; to < layers; ++to) {
    pairs.insert({*rc::gen::inRange(0, to), to});
    if (*rc::gen::arbitrary<bool>()) pairs.insert({*rc::gen::inRange(0, to), to});
  }
  std::vector<Edge> edges;
  for (const auto& [from, to] : pairs) {
    edges.push_back({label[static_cast<std::size_t>(from)], label[static_cast<std::size_t>(to)]});
  }
  return graph(layers, std::move(edges));
}

}  // namespace

TEST_CASE("built-in models have the published number of parameters, to the unit") {
  const std::map<std::string, std::int64_t> published{
      {"gpt2-124m", 124'439'808},
      {"gpt2-350m", 354'823'168},
      {"gpt2-774m", 774'030'080},
      {"gpt2-1558m", 1'557'611'200},
      {"gpt3-175b", 174'604'259'328},
      // 529.6 B in Narayanan et al. 2021, whose formula leaves out the last norm.
      {"mt-nlg-530b", 529'600'778'240 + 2 * 20480},
      {"bloom-176b", 176'247'271'424},
      // 9.4 B of embeddings and 331.6 B of others in its report.
      {"nemotron4-340b", 9'437'184'000 + 331'592'011'776},
      {"llama2-7b", 6'738'415'616},
      {"llama2-13b", 13'015'864'320},
      {"llama2-70b", 68'976'648'192},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},
      {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824},
      {"mistral-7b", 7'241'732'096},
      {"qwen2-0.5b", 494'032'768},
      {"qwen2-7b", 7'615'616'512},
      {"bert-base", 110'106'428},
      {"bert-large", 336'226'108},
      {"vgg16", 138'357'544},
      {"resnet50", 25'557'032},
      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'630'071'296},
      {"vit-b16", 86'567'656},
      {"vit-l16", 304'326'632},
      {"vit-h14", 632'045'800},
      {"deepseek-v2-lite", 15'706'484'224},
      {"deepseek-v2", 235'741'434'880},
      // 671 B without the prediction module, whose own weights are 11.6 B more; the numbers that
      // balance its router are no parameters.
      {"deepseek-v3", 671'026'404'352 + 11'610'067'968},
  };
  for (const auto& [name, count] : published) {
    INFO(name);
    CHECK(parameters(builtin_model(name)) == count);
  }
  for (const std::string& name : builtin_models()) {
    INFO(name);
    CHECK((published.contains(name) || name.starts_with("tiny-") || name == "vgg-small"));
    CHECK_NOTHROW(validate(builtin_model(name)));
  }
}

TEST_CASE("a transformer is an embedding, its blocks and a head") {
  const Model model = builtin_model("gpt2-124m");
  REQUIRE(model.layers.size() == 14);
  CHECK(model.layers.front().name == "embedding");
  CHECK(model.layers[1].name == "block.0");
  CHECK(model.layers[12].name == "block.11");
  CHECK(model.layers.back().name == "head");
  CHECK(model.layers.front().parameters == (50257 + 1024) * 768);
  CHECK(model.layers[1].parameters == 12 * 768 * 768 + 13 * 768);
  CHECK(model.layers.back().parameters == 2 * 768);
  REQUIRE(model.ties.size() == 1);
  CHECK(model.ties[0] == Tie{.owner = 0, .user = 13, .parameters = 50257 * 768});
  CHECK(model.layers[1].output_elements == 1024 * 768);
}

TEST_CASE("a small VGG works in its convolutions and keeps its weights in its dense layers") {
  const Model model = builtin_model("vgg-small");
  REQUIRE(model.layers.size() == 3 * 3 + 3);
  std::map<LayerKind, double> work;
  std::map<LayerKind, std::int64_t> weights;
  Image image{3, 32};
  for (const Layer& layer : model.layers) {
    INFO(layer.name);
    work[layer.kind] += layer.flops_forward;
    weights[layer.kind] += layer.parameters;
    REQUIRE(layer.image);
    CHECK(layer.image->input == image);
    image = layer.image->output;
    CHECK(image.elements() == layer.output_elements);
    CHECK(layer.image->relu == (layer.parameters > 0 && layer.name != "fc6"));
  }
  CHECK(image == Image{10, 1});
  CHECK(weights[LayerKind::convolution] ==
        9 * (3 * 16 + 16 * 16 + 16 * 32 + 32 * 32 + 32 * 64 + 64 * 64) + 2 * (16 + 32 + 64));
  CHECK(weights[LayerKind::dense] == 64 * 4 * 4 * 256 + 256 * 256 + 256 * 10 + 256 + 256 + 10);
  CHECK(work[LayerKind::convolution] > 20 * work[LayerKind::dense]);
  CHECK(weights[LayerKind::dense] > 4 * weights[LayerKind::convolution]);
}

TEST_CASE("operations are two for each multiply-add of each matrix product") {
  const Model model = builtin_model("gpt2-124m");
  const double tokens = 1024;
  const double linear = 2 * tokens * 12 * 768 * 768;
  const double attention = 2 * (2 * tokens * tokens * 768);
  CHECK(model.layers[1].flops_forward == linear + attention);
  CHECK(model.layers.back().flops_forward == 2 * tokens * 768 * 50257);
  CHECK(model.layers.front().flops_forward == 0);
  const auto total = [](const Model& any) {
    double sum = 0;
    for (const Layer& layer : any.layers) sum += layer.flops_forward;
    return sum;
  };
  // The literature's 15.5 and 4.1 billion multiply-adds.
  CHECK(total(builtin_model("vgg16")) == Approx(2 * 15.47e9).epsilon(0.001));
  CHECK(total(builtin_model("resnet50")) == Approx(2 * 4.09e9).epsilon(0.002));
}

TEST_CASE("the first blocks of a model with experts may be dense, and prediction modules follow") {
  const Model model = builtin_model("deepseek-v3");
  REQUIRE(model.layers.size() == 1 + 61 + 1 + 1);
  CHECK(model.layers[3].kind == LayerKind::transformer);
  CHECK(model.layers[4].kind == LayerKind::expert_transformer);
  CHECK(model.layers[62].name == "prediction.0");
  CHECK(model.layers[62].kind == LayerKind::prediction);
  CHECK(model.layers.back().kind == LayerKind::head);
  // 37 billion parameters work for each token (DeepSeek-V3's report): two operations each, besides
  // attention.
  double linear = 0;
  for (const Layer& layer : model.layers) {
    if (layer.kind != LayerKind::prediction)
      linear += layer_flops(*model.transformer, layer.kind, 4096).linear / 4096;
  }
  CHECK(linear == Approx(2 * 37e9).epsilon(0.02));
}

TEST_CASE("an image is as many tokens as it has patches, and one") {
  CHECK(builtin_model("vit-h14").sequence == 16 * 16 + 1);
  CHECK_THAT(message_of([] { with_sequence(builtin_model("vit-b16"), 128); }),
             ContainsSubstring("an image is always 197 tokens, found 128"));
}

TEST_CASE("models of every family survive their file") {
  for (const std::string& name : builtin_models()) {
    INFO(name);
    const Model model = builtin_model(name);
    CHECK(read_model(Json::parse(write_model(model), "m.json")) == model);
  }
}

TEST_CASE("numbers that fit no transformer are refused with the numbers") {
  const auto complaint = [](std::string_view name, auto change) {
    Transformer transformer = *builtin_model(name).transformer;
    change(transformer);
    return message_of([&] { validate(transformer); });
  };
  CHECK_THAT(complaint("mixtral-8x7b", [](Transformer& t) { t.experts->active = 9; }),
             ContainsSubstring("experts.active must be from 1 to 8, found 9"));
  CHECK_THAT(complaint("deepseek-v2", [](Transformer& t) { t.head_width = 128; }),
             ContainsSubstring("plain_width + latent.rotary_width = 192, found 128"));
  CHECK_THAT(complaint("vit-b16", [](Transformer& t) { t.patches->patch = 32; }),
             ContainsSubstring("expected 50 positions"));
}

TEST_CASE("another sequence length changes work and outputs, not parameters") {
  const Model model = builtin_model("gpt2-124m");
  const Model half = with_sequence(model, 512);
  CHECK(parameters(half) == parameters(model));
  CHECK(half.layers[1].output_elements == 512 * 768);
  CHECK(with_sequence(half, 1024) == model);
  CHECK_THAT(message_of([&] { with_sequence(model, 2048); }),
             ContainsSubstring("2048 tokens is longer than the model's 1024 learned positions"));
  CHECK_NOTHROW(with_sequence(builtin_model("llama2-7b"), 65536));
  CHECK_THAT(message_of([&] { with_sequence(model, 0); }), ContainsSubstring("found 0"));
  CHECK_THAT(message_of([] { with_sequence(builtin_model("vgg16"), 8); }),
             ContainsSubstring("not a known transformer"));
}

TEST_CASE("an unknown model is a usage error with a suggestion") {
  CHECK_THAT(message_of([] { builtin_model("lama2-7b"); }),
             ContainsSubstring("did you mean \"llama2-7b\"?"));
  CHECK(exit_code_of([] { builtin_model("x"); }) == 2);
}

TEST_CASE("each tensor crosses a cut once, however many layers read it") {
  // a feeds b, c and d; the shortcut a -> d crosses every cut up to d.
  const Model model = graph(4, {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {2, 3}});
  CHECK(crossing(model, 1) == std::vector<int>{0});
  CHECK(crossing(model, 2) == std::vector<int>{0, 1});
  CHECK(crossing(model, 3) == std::vector<int>{0, 2});
}

TEST_CASE("a cycle is refused with the names of its layers") {
  const Model model = graph(4, {{0, 1}, {1, 2}, {2, 3}, {3, 1}});
  CHECK_THAT(message_of([&] { in_topological_order(model); }),
             ContainsSubstring("\"b\" -> \"c\" -> \"d\" -> \"b\""));
  CHECK_THAT(message_of([&] { validate(model); }), ContainsSubstring("form a cycle"));
  CHECK_THAT(message_of([] {
               in_topological_order(graph(1, {{0, 0}}));
             }),
             ContainsSubstring("\"a\" -> \"a\""));
}

TEST_CASE("layers are reordered only where edges demand it") {
  const Model model = in_topological_order(graph(4, {{3, 1}, {0, 2}, {1, 2}}));
  std::string names;
  for (const Layer& layer : model.layers) names += layer.name;
  CHECK(names == "adbc");
  CHECK_NOTHROW(validate(model));
  const Model sorted = graph(3, {{0, 1}, {1, 2}});
  CHECK(in_topological_order(sorted) == sorted);
  CHECK(rc::check("any graph without cycles becomes valid, keeping its edges", [] {
    const Model before = random_graph();
    const Model after = in_topological_order(before);
    validate(after);
    const auto named_edges = [](const Model& any) {
      std::set<std::string> names_of_edges;
      for (const Edge& edge : any.edges) {
        names_of_edges.insert(any.layers[static_cast<std::size_t>(edge.from)].name + ">" +
                              any.layers[static_cast<std::size_t>(edge.to)].name);
      }
      return names_of_edges;
    };
    RC_ASSERT(named_edges(before) == named_edges(after));
  }));
}

TEST_CASE("a model that makes no sense is refused with the reason") {
  const auto complaint = [](const Model& model) { return message_of([&] { validate(model); }); };
  CHECK_THAT(complaint(graph(0, {})), ContainsSubstring("has no layers"));
  CHECK_THAT(complaint(graph(2, {})), ContainsSubstring("no edges connect"));
  CHECK_THAT(complaint(graph(2, {{1, 0}})), ContainsSubstring("which is listed after it"));
  CHECK_THAT(complaint(graph(2, {{0, 2}})), ContainsSubstring("leaves its 2 layers"));
  CHECK_THAT(complaint(graph(2, {{0, 1}, {0, 1}})), ContainsSubstring("appears twice"));
  Model twice = graph(2, {{0, 1}});
  twice.layers[1].name = "a";
  CHECK_THAT(complaint(twice), ContainsSubstring("two layers are named \"a\""));
  Model negative = graph(1, {});
  negative.layers[0].parameters = -1;
  CHECK_THAT(complaint(negative), ContainsSubstring("negative"));
  Model tied = graph(2, {{0, 1}});
  tied.ties = {{.owner = 0, .user = 1, .parameters = 5}};
  CHECK_THAT(complaint(tied), ContainsSubstring("shares 5 parameters"));
}

TEST_CASE("models survive their file") {
  for (const std::string& name : builtin_models()) {
    INFO(name);
    const Model model = builtin_model(name);
    CHECK(read_model(Json::parse(write_model(model), "m.json")) == model);
  }
  Transformer refused = *builtin_model("llama3.2-1b").transformer;
  CHECK(refused.rotary_scaling == RotaryScaling{.factor = 32});
  refused.untrainable = "its activation is relu";
  const Model scaled = make_transformer("refused", refused, 2, 16);
  CHECK(read_model(Json::parse(write_model(scaled), "m.json")) == scaled);
  CHECK(rc::check("any graph", [] {
    const Model model = in_topological_order(random_graph());
    RC_ASSERT(read_model(Json::parse(write_model(model), "m.json")) == model);
  }));
}

TEST_CASE("a model file with a mistake is refused at its place") {
  const auto complaint = [](const std::string& text) {
    return message_of([&] { read_model(Json::parse(text, "m.json")); });
  };
  const std::string start = "{\"format\": \"stagecraft-model/1\", \"name\": \"m\", ";
  CHECK_THAT(complaint(start + "\"layers\": [{\"name\": \"a\", \"kind\": \"dens\"}]}"),
             ContainsSubstring("m.json:1:") && ContainsSubstring("layers[0].kind") &&
                 ContainsSubstring("did you mean \"dense\"?"));
  CHECK_THAT(complaint(start + "\"layers\": []}"), ContainsSubstring("layers: expected from 1"));
  CHECK_THAT(complaint(start + "\"layer\": []}"), ContainsSubstring("did you mean \"layers\"?"));
  CHECK_THAT(complaint(start + "\"layers\": [{\"name\": \"a\", \"kind\": \"dense\", "
                               "\"parameters\": -1}]}"),
             ContainsSubstring("layers[0].parameters: expected an integer >= 0, found -1"));
  CHECK_THAT(complaint(start + "\"layers\": [{\"name\": \"a\", \"kind\": \"dense\"}], "
                               "\"edges\": [[0, 1]]}"),
             ContainsSubstring("edges[0][1]: expected an integer from 0 to 0, found 1"));
  CHECK_THAT(complaint(start + "\"layers\": [{\"name\": \"a\", \"kind\": \"dense\", "
                               "\"flops_forward\": 1e308}]}"),
             ContainsSubstring("layers[0].flops_forward: expected a number from 0 to 1e+24"));
  std::string no_sequence = write_model(builtin_model("tiny-gpt"));
  const std::size_t sequence = no_sequence.find("\"sequence\": 64");
  REQUIRE(sequence != no_sequence.npos);
  CHECK_THAT(complaint(no_sequence.replace(sequence, 14, "\"sequence\": 0")),
             ContainsSubstring("expected \"sequence\", the tokens of one"));
  const auto image = [&](const std::string& numbers) {
    return complaint(start + R"("layers": [{"name": "a", "kind": "pool", "image": )" + numbers +
                     "}]}");
  };
  CHECK_THAT(image(R"({"input": [3], "output": [3, 1]})"),
             ContainsSubstring("image.input: expected channels and size such as [3, 32]"));
  CHECK_THAT(image(R"({"input": [3, 0], "output": [3, 1]})"),
             ContainsSubstring("image.input[1]: expected an integer from 1"));
}
