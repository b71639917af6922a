// {
//   "format": "stagecraft-model/1",
//   "name": "two-branches",
//   "sequence": 128,                  // tokens per sample; left out where samples are no sequences
//   "layers": [
//     {"name": "in", "kind": "dense", "parameters": 1000,
//      "flops_forward": 2e6,          // of one sample; left out: 0
//      "output_elements": 4096,       // of one sample; left out: 0
//      "image": {"input": [3, 32],    // only in convolutional networks that can be trained:
//                "output": [16, 32],  // channels and size
//                "kernel": 3, "relu": true}},
//     {"name": "block.0", "kind": "transformer", "parameters": 67108864,
//      "steps": [                     // only where the transformer's numbers do not say it all;
//        {"kind": "product", "name": "query", "outputs": 4096, "inputs": 4096,
//         "split": "outputs"}, …]},   // members as in steps.hpp, those at their default left out
//     …
//   ],
//   "edges": [[0, 1], [0, 2], [1, 2]],   // left out: each layer reads the one before it
//   "ties": [{"owner": 0, "user": 2, "parameters": 500}],       // may be left out
//   "transformer": {                  // only where the layers are those of such a transformer
//     "hidden": 768, "heads": 12, "key_value_heads": 12, "head_width": 64, "feed_forward": 3072,
//     "vocabulary": 50257, "positions": 1024,
//     "norm": "layer_norm",           // or "rms_norm"
//     "activation": "gelu",           // or "swiglu"
//     "position": "learned",          // or "rotary", "none"
//     "attention_bias": true, "output_bias": true, "feed_forward_bias": true,
//     "tied_head": true, "causal": true, "token_types": false,
//     "norm_epsilon": 1e-05, "rotary_base": 10000.0,
//     // Only where the model has them:
//     "experts": {"count": 8, "active": 2, "feed_forward": 14336, "shared_feed_forward": 0,
//                 "dense_blocks": 0, "score_bias": false},
//     "latent": {"query_rank": 1536, "key_value_rank": 512, "rotary_width": 64,
//                "plain_width": 128, "value_width": 128},
//     "prediction_modules": 1,
//     "patches": {"image": 224, "patch": 16, "channels": 3, "classes": 1000},
//     "rotary_scaling": {"factor": 8, "low_frequency": 1, "high_frequency": 4,
//                        "positions": 8192},
//     "streams": 4,
//     "arithmetic": {"activation": "exact_gelu", "parallel_residual": true, "rotary_width": 16,
//                    …},              // members as in model.hpp, those at their default left out
//     "embedding_norm": true,
//     "untrainable": "its activation is relu"
//   }
// }

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/model.hpp"
#include "profiles/model_json.hpp"
#include "profiles/steps_json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;
using Norm = Transformer::Norm;
using FeedForward = Transformer::FeedForward;
using Position = Transformer::Position;
using Activation = Arithmetic::Activation;

constexpr int most_layers = 10'000'000;
/// Of an image; its elements are counted in 64 bits.
constexpr std::int64_t most_extent = 1 << 20;

/// The words for an enumeration, in the order of its enumerators.
template <class Enumeration>
std::vector<std::string> words();
template <>
std::vector<std::string> words<Norm>() {
  return {"layer_norm", "rms_norm"};
}
template <>
std::vector<std::string> words<FeedForward>() {
  return {"gelu", "swiglu"};
}
template <>
std::vector<std::string> words<Position>() {
  return {"learned", "rotary", "none"};
}
template <>
std::vector<std::string> words<Activation>() {
  return {"usual", "exact_gelu", "tanh_gelu"};
}

template <class Enumeration>
Enumeration read_word(const Json& json) {
  const std::vector<std::string> known = words<Enumeration>();
  const auto found = std::find(known.begin(), known.end(), json.string());
  if (found == known.end()) {
    json.fail(concat("expected one of ", join_words(known), ", found \"", json.string(), "\""));
  }
  return static_cast<Enumeration>(found - known.begin());
}

template <class Enumeration>
std::string write_word(Enumeration value) {
  return words<Enumeration>().at(static_cast<std::size_t>(value));
}

/// Lets `read_…` of a word complain at the place of the word.
template <class Read>
auto read_at(const Json& json, Read read) {
  try {
    return read(json.string());
  } catch (const Error& error) {
    if (error.place()) throw;
    json.fail(error.message());
  }
}

Experts read_experts(const Json& json) {
  json.allow_only({"count", "active", "feed_forward", "shared_feed_forward", "dense_blocks",
                   "score_bias", "shares_add_up", "groups", "active_groups"});
  const auto groups = [&](const char* name) {
    return json.contains(name) ? json[name].integer(1) : 1;
  };
  return {.count = json["count"].integer(1),
          .active = json["active"].integer(1),
          .feed_forward = json["feed_forward"].integer(1),
          .shared_feed_forward = json["shared_feed_forward"].integer(0),
          .dense_blocks = json["dense_blocks"].integer(0),
          .score_bias = json["score_bias"].boolean(),
          .shares_add_up = !json.contains("shares_add_up") || json["shares_add_up"].boolean(),
          .groups = {.count = groups("groups"), .active = groups("active_groups")}};
}

LatentAttention read_latent(const Json& json) {
  json.allow_only({"query_rank", "key_value_rank", "rotary_width", "plain_width", "value_width"});
  return {.query_rank = json["query_rank"].integer(0),
          .key_value_rank = json["key_value_rank"].integer(1),
          .rotary_width = json["rotary_width"].integer(1),
          .plain_width = json["plain_width"].integer(1),
          .value_width = json["value_width"].integer(1)};
}

Patches read_patches(const Json& json) {
  json.allow_only({"image", "patch", "channels", "classes"});
  return {.image = json["image"].integer(1),
          .patch = json["patch"].integer(1),
          .channels = json["channels"].integer(1),
          .classes = json["classes"].integer(1)};
}

/// A finite number above zero.
double positive(const Json& json) {
  const double number = json.number();
  if (!(number > 0)) json.fail("expected a number above 0");
  return number;
}

/// Members that are absent are as usual.
Arithmetic read_arithmetic(const Json& json) {
  json.allow_only({"activation", "parallel_residual", "rotary_width", "window_rotary_base",
                   "rotary_factor", "norms_from_one", "embedding_scale", "score_width"});
  Arithmetic arithmetic;
  if (json.contains("activation"))
    arithmetic.activation = read_word<Activation>(json["activation"]);
  if (json.contains("parallel_residual"))
    arithmetic.parallel_residual = json["parallel_residual"].boolean();
  if (json.contains("rotary_width")) arithmetic.rotary_width = json["rotary_width"].integer(1);
  if (json.contains("window_rotary_base"))
    arithmetic.window_rotary_base = positive(json["window_rotary_base"]);
  if (json.contains("rotary_factor")) arithmetic.rotary_factor = positive(json["rotary_factor"]);
  if (json.contains("norms_from_one")) arithmetic.norms_from_one = json["norms_from_one"].boolean();
  if (json.contains("embedding_scale"))
    arithmetic.embedding_scale = positive(json["embedding_scale"]);
  if (json.contains("score_width")) arithmetic.score_width = positive(json["score_width"]);
  return arithmetic;
}

RotaryScaling read_rotary_scaling(const Json& json) {
  json.allow_only({"factor", "low_frequency", "high_frequency", "positions"});
  return {.factor = positive(json["factor"]),
          .low_frequency = positive(json["low_frequency"]),
          .high_frequency = positive(json["high_frequency"]),
          .positions = json["positions"].integer(1)};
}

Transformer read_transformer(const Json& json) {
  json.allow_only({"hidden",
                   "heads",
                   "key_value_heads",
                   "head_width",
                   "feed_forward",
                   "vocabulary",
                   "positions",
                   "norm",
                   "activation",
                   "position",
                   "attention_bias",
                   "output_bias",
                   "feed_forward_bias",
                   "tied_head",
                   "causal",
                   "token_types",
                   "norm_epsilon",
                   "rotary_base",
                   "experts",
                   "latent",
                   "prediction_modules",
                   "patches",
                   "rotary_scaling",
                   "streams",
                   "arithmetic",
                   "embedding_norm",
                   "untrainable"});
  Transformer transformer;
  transformer.hidden = json["hidden"].integer(1);
  transformer.heads = json["heads"].integer(1);
  transformer.key_value_heads = json["key_value_heads"].integer(1);
  transformer.head_width = json["head_width"].integer(1);
  transformer.feed_forward = json["feed_forward"].integer(1);
  transformer.vocabulary = json["vocabulary"].integer(1);
  transformer.positions = json["positions"].integer(1);
  transformer.norm = read_word<Norm>(json["norm"]);
  transformer.activation = read_word<FeedForward>(json["activation"]);
  transformer.position = read_word<Position>(json["position"]);
  transformer.attention_bias = json["attention_bias"].boolean();
  transformer.output_bias = json["output_bias"].boolean();
  transformer.feed_forward_bias = json["feed_forward_bias"].boolean();
  transformer.tied_head = json["tied_head"].boolean();
  transformer.causal = json["causal"].boolean();
  transformer.token_types = json["token_types"].boolean();
  transformer.norm_epsilon = json["norm_epsilon"].number();
  transformer.rotary_base = json["rotary_base"].number();
  if (json.contains("experts")) transformer.experts = read_experts(json["experts"]);
  if (json.contains("latent")) transformer.latent = read_latent(json["latent"]);
  if (json.contains("prediction_modules"))
    transformer.prediction_modules = json["prediction_modules"].integer(0);
  if (json.contains("patches")) transformer.patches = read_patches(json["patches"]);
  if (json.contains("rotary_scaling"))
    transformer.rotary_scaling = read_rotary_scaling(json["rotary_scaling"]);
  if (json.contains("embedding_norm"))
    transformer.embedding_norm = json["embedding_norm"].boolean();
  if (json.contains("arithmetic")) transformer.arithmetic = read_arithmetic(json["arithmetic"]);
  if (json.contains("streams")) transformer.streams = json["streams"].integer(1);
  if (json.contains("untrainable")) transformer.untrainable = json["untrainable"].string();
  return transformer;
}

/// Only what is not as usual.
Value write_arithmetic(const Arithmetic& arithmetic) {
  Value json = Value::object();
  if (arithmetic.activation != Activation::usual)
    json["activation"] = write_word(arithmetic.activation);
  if (arithmetic.parallel_residual) json["parallel_residual"] = true;
  if (arithmetic.rotary_width > 0) json["rotary_width"] = arithmetic.rotary_width;
  if (arithmetic.window_rotary_base > 0) json["window_rotary_base"] = arithmetic.window_rotary_base;
  if (arithmetic.rotary_factor != 1) json["rotary_factor"] = arithmetic.rotary_factor;
  if (arithmetic.norms_from_one) json["norms_from_one"] = true;
  if (arithmetic.embedding_scale != 1) json["embedding_scale"] = arithmetic.embedding_scale;
  if (arithmetic.score_width > 0) json["score_width"] = arithmetic.score_width;
  return json;
}

/// Members that only some transformers have.
void write_special(Value& json, const Transformer& transformer) {
  if (const auto& experts = transformer.experts) {
    json["experts"] = {{"count", experts->count},
                       {"active", experts->active},
                       {"feed_forward", experts->feed_forward},
                       {"shared_feed_forward", experts->shared_feed_forward},
                       {"dense_blocks", experts->dense_blocks},
                       {"score_bias", experts->score_bias}};
    if (!experts->shares_add_up) json["experts"]["shares_add_up"] = false;
    if (experts->groups != ExpertGroups{}) {
      json["experts"]["groups"] = experts->groups.count;
      json["experts"]["active_groups"] = experts->groups.active;
    }
  }
  if (const auto& latent = transformer.latent) {
    json["latent"] = {{"query_rank", latent->query_rank},
                      {"key_value_rank", latent->key_value_rank},
                      {"rotary_width", latent->rotary_width},
                      {"plain_width", latent->plain_width},
                      {"value_width", latent->value_width}};
  }
  if (transformer.prediction_modules > 0)
    json["prediction_modules"] = transformer.prediction_modules;
  if (const auto& patches = transformer.patches) {
    json["patches"] = {{"image", patches->image},
                       {"patch", patches->patch},
                       {"channels", patches->channels},
                       {"classes", patches->classes}};
  }
}

Value write_transformer(const Transformer& transformer) {
  Value json{{"hidden", transformer.hidden},
             {"heads", transformer.heads},
             {"key_value_heads", transformer.key_value_heads},
             {"head_width", transformer.head_width},
             {"feed_forward", transformer.feed_forward},
             {"vocabulary", transformer.vocabulary},
             {"positions", transformer.positions},
             {"norm", write_word(transformer.norm)},
             {"activation", write_word(transformer.activation)},
             {"position", write_word(transformer.position)},
             {"attention_bias", transformer.attention_bias},
             {"output_bias", transformer.output_bias},
             {"feed_forward_bias", transformer.feed_forward_bias},
             {"tied_head", transformer.tied_head},
             {"causal", transformer.causal},
             {"token_types", transformer.token_types},
             {"norm_epsilon", transformer.norm_epsilon},
             {"rotary_base", transformer.rotary_base}};
  write_special(json, transformer);
  if (const auto& scaling = transformer.rotary_scaling) {
    json["rotary_scaling"] = {{"factor", scaling->factor},
                              {"low_frequency", scaling->low_frequency},
                              {"high_frequency", scaling->high_frequency},
                              {"positions", scaling->positions}};
  }
  if (transformer.embedding_norm) json["embedding_norm"] = true;
  if (transformer.arithmetic != Arithmetic{})
    json["arithmetic"] = write_arithmetic(transformer.arithmetic);
  if (transformer.streams != 1) json["streams"] = transformer.streams;
  if (!transformer.untrainable.empty()) json["untrainable"] = transformer.untrainable;
  return json;
}

Image read_image(const Json& json) {
  if (json.elements().size() != 2) json.fail("expected channels and size such as [3, 32]");
  return {json[0].integer(1, most_extent), json[1].integer(1, most_extent)};
}

ImageLayer read_image_layer(const Json& json) {
  json.allow_only({"input", "output", "kernel", "relu"});
  ImageLayer image{.input = read_image(json["input"]), .output = read_image(json["output"])};
  if (json.contains("kernel")) image.kernel = json["kernel"].integer(1, most_extent);
  if (json.contains("relu")) image.relu = json["relu"].boolean();
  return image;
}

Value write_image_layer(const ImageLayer& image) {
  return {{"input", {image.input.channels, image.input.size}},
          {"output", {image.output.channels, image.output.size}},
          {"kernel", image.kernel},
          {"relu", image.relu}};
}

Layer read_layer(const Json& json) {
  json.allow_only(
      {"name", "kind", "parameters", "flops_forward", "output_elements", "image", "steps"});
  Layer layer;
  layer.name = json["name"].string();
  layer.kind = read_at(json["kind"], read_layer_kind);
  if (json.contains("parameters")) layer.parameters = json["parameters"].integer(0);
  if (json.contains("flops_forward")) layer.flops_forward = json["flops_forward"].number();
  constexpr double most_flops = 1e24;  // sums over layers and samples stay finite
  if (layer.flops_forward < 0 || layer.flops_forward > most_flops) {
    json["flops_forward"].fail(concat("expected a number from 0 to ", most_flops));
  }
  if (json.contains("output_elements")) layer.output_elements = json["output_elements"].integer(0);
  if (json.contains("image")) layer.image = read_image_layer(json["image"]);
  if (json.contains("steps")) {
    for (const Json& step : json["steps"].elements()) layer.steps.push_back(read_step(step));
  }
  return layer;
}

std::vector<Edge> chain(std::size_t layers) {
  std::vector<Edge> edges;
  for (int layer = 1; layer < static_cast<int>(layers); ++layer)
    edges.push_back({layer - 1, layer});
  return edges;
}

Edge read_edge(const Json& json, int last) {
  if (json.elements().size() != 2) json.fail("expected an edge such as [0, 1]");
  return {json[0].small_integer(0, last), json[1].small_integer(0, last)};
}

}  // namespace

Model read_model(const Json& json) {
  json.expect_format("stagecraft-model/1");
  json.allow_only({"format", "name", "sequence", "layers", "edges", "ties", "transformer"});
  Model model;
  model.name = json["name"].string();
  if (json.contains("sequence")) model.sequence = json["sequence"].integer(0);
  for (const Json& layer : json["layers"].elements()) model.layers.push_back(read_layer(layer));
  if (model.layers.empty() || model.layers.size() > most_layers) {
    json["layers"].fail(concat("expected from 1 to ", most_layers, " layers"));
  }
  const int last = static_cast<int>(model.layers.size()) - 1;
  model.edges = chain(model.layers.size());
  if (json.contains("edges")) {
    model.edges.clear();
    for (const Json& edge : json["edges"].elements()) model.edges.push_back(read_edge(edge, last));
  }
  if (json.contains("ties")) {
    for (const Json& tie : json["ties"].elements()) {
      tie.allow_only({"owner", "user", "parameters"});
      model.ties.push_back({tie["owner"].small_integer(0, last), tie["user"].small_integer(0, last),
                            tie["parameters"].integer(1)});
    }
  }
  if (json.contains("transformer")) model.transformer = read_transformer(json["transformer"]);
  if (model.transformer && model.sequence == 0) {
    json.fail("a transformer's samples are sequences: expected \"sequence\", the tokens of one");
  }
  return model;
}

Value model_to_json(const Model& model) {
  Value json{{"format", "stagecraft-model/1"}, {"name", model.name}};
  if (model.sequence != 0) json["sequence"] = model.sequence;
  json["layers"] = Value::array();
  for (const Layer& layer : model.layers) {
    json["layers"].push_back({{"name", layer.name},
                              {"kind", to_string(layer.kind)},
                              {"parameters", layer.parameters},
                              {"flops_forward", layer.flops_forward},
                              {"output_elements", layer.output_elements}});
    if (layer.image) json["layers"].back()["image"] = write_image_layer(*layer.image);
    for (const Step& step : layer.steps) json["layers"].back()["steps"].push_back(write_step(step));
  }
  if (model.edges != chain(model.layers.size())) {
    json["edges"] = Value::array();
    for (const Edge& edge : model.edges) json["edges"].push_back({edge.from, edge.to});
  }
  for (const Tie& tie : model.ties) {
    json["ties"].push_back(
        {{"owner", tie.owner}, {"user", tie.user}, {"parameters", tie.parameters}});
  }
  if (model.transformer) json["transformer"] = write_transformer(*model.transformer);
  return json;
}

std::string write_model(const Model& model) {
  return to_text(model_to_json(model));
}

}  // namespace stagecraft
