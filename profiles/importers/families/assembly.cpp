#include "profiles/importers/families/assembly.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct NamedHead {
  std::string_view end;  ///< of the class's name
  ModelHead head;
};
constexpr std::array known_heads{
    NamedHead{"ForCausalLM", ModelHead::words},
    NamedHead{"ForConditionalGeneration", ModelHead::words},
    NamedHead{"ForMaskedLM", ModelHead::words},
    NamedHead{"LMHeadModel", ModelHead::words},
    NamedHead{"ForSequenceClassification", ModelHead::sequence},
    NamedHead{"ForImageClassification", ModelHead::sequence},
    NamedHead{"ForTokenClassification", ModelHead::tokens},
    NamedHead{"ForQuestionAnswering", ModelHead::spans},
    NamedHead{"VLChatModel", ModelHead::words},        // InternVL's own classes
    NamedHead{"MTModel", ModelHead::words},            // Marian's class with a head
    NamedHead{"Omni_Reasoning_V3", ModelHead::words},  // NVIDIA's own class of Nemotron 3 Omni
    NamedHead{"Model", ModelHead::none},
};

LayerKind kind_of(const Steps& steps) {
  const bool chooses = std::any_of(
      steps.begin(), steps.end(), [](const Step& step) { return step.kind == StepKind::dispatch; });
  return chooses ? LayerKind::expert_transformer : LayerKind::transformer;
}

Step logits(std::string_view name, std::int64_t outputs, std::int64_t width, bool bias) {
  return {.kind = StepKind::logits,
          .name = name,
          .outputs = outputs,
          .inputs = width,
          .bias = bias,
          .split = Split::outputs};
}

Steps steps_of_head(const Blueprint& blueprint, ModelHead head, std::int64_t classes) {
  const Transformer& numbers = blueprint.numbers;
  const std::int64_t width = blueprint.head_width > 0 ? blueprint.head_width : numbers.hidden;
  Steps steps = blueprint.last;
  switch (head) {
    case ModelHead::words: {
      add_steps(steps, blueprint.transform);
      const std::int64_t read = blueprint.words_width > 0 ? blueprint.words_width : width;
      Step words = logits("logits", numbers.vocabulary, read, blueprint.head_bias);
      words.tied = numbers.tied_head;
      steps.push_back(words);
      break;
    }
    case ModelHead::encoder: break;
    case ModelHead::none:
      if (blueprint.pools_alone) add_steps(steps, blueprint.pooler);
      break;
    case ModelHead::sequence: {
      if (!blueprint.names_images) add_steps(steps, blueprint.pooler);
      Step classifier = logits("sentence classes", classes, width, blueprint.classes_bias);
      classifier.of_sample = true;
      steps.push_back(classifier);
      break;
    }
    case ModelHead::tokens:
      if (blueprint.transforms_tokens) add_steps(steps, blueprint.transform);
      steps.push_back(logits("sentence classes", classes, width, true));
      break;
    case ModelHead::spans:
      if (blueprint.transforms_tokens) add_steps(steps, blueprint.transform);
      steps.push_back(
          logits("sentence classes", blueprint.spans_of_labels ? classes : 2, width, true));
      break;
  }
  return steps;
}

/// Two norms, a projection of both states, the last block, and the model's own head once more.
Steps prediction_steps(const Blueprint& blueprint) {
  const std::int64_t hidden = blueprint.numbers.hidden;
  Steps steps{norm("state norm", hidden), norm("embedding norm", hidden),
              product("join", hidden, 2 * hidden)};
  add_steps(steps, blueprint.blocks.back());
  steps.push_back(norm("last norm", hidden));
  Step words = logits("logits", blueprint.numbers.vocabulary, hidden, false);
  words.tied = true;
  steps.push_back(words);
  return steps;
}

class Assembly {
 public:
  explicit Assembly(const Blueprint& blueprint) : blueprint_(blueprint) {}

  int add(std::string name, LayerKind kind, const Steps& steps) {
    model_.layers.push_back({.name = std::move(name), .kind = kind, .steps = steps});
    return static_cast<int>(model_.layers.size()) - 1;
  }

  /// Encoder, then decoder, each of whose blocks reads the encoder's last states, too.
  void add_encoder() {
    const bool own = !blueprint_.decoder_embedding.empty();
    const bool tied = (!own || blueprint_.numbers.tied_head) && !blueprint_.own_words;
    Steps first = blueprint_.embedding;
    if (!tied && !blueprint_.own_words) {
      Step table = first.front();
      first.push_back(
          {.kind = StepKind::numbers, .name = table.name, .outputs = parameters(table)});
    }
    add("embedding", LayerKind::embedding, first);
    for (std::size_t block = 0; block < blueprint_.encoder.size(); ++block) {
      Steps steps = blueprint_.encoder[block];
      if (block + 1 == blueprint_.encoder.size()) add_steps(steps, blueprint_.encoder_last);
      add(concat("encoder.", block), kind_of(steps), steps);
    }
    encoded_ = static_cast<int>(model_.layers.size()) - 1;
    Steps again = own ? blueprint_.decoder_embedding : blueprint_.embedding;
    for (Step& step : again) step.tied = !own;
    again.front().tied = tied;
    const int words = add("decoder_embedding", LayerKind::embedding, again);
    if (blueprint_.own_words) words_ = words;
    std::int64_t shared = 0;
    for (Step step : again) {
      if (std::exchange(step.tied, false)) shared += parameters(step);
    }
    if (shared > 0) model_.ties.push_back({0, words, shared});
  }

  void add_blocks() {
    const std::string prefix = encoded_ ? "decoder." : "block.";
    for (std::size_t block = 0; block < blueprint_.blocks.size(); ++block) {
      add(concat(prefix, block), kind_of(blueprint_.blocks[block]), blueprint_.blocks[block]);
    }
  }

  void connect() {
    const int last = static_cast<int>(model_.layers.size()) - 1;
    for (int layer = 1; layer <= last; ++layer) {
      const bool starts = encoded_ && layer == *encoded_ + 1;
      if (!starts) model_.edges.push_back({layer - 1, layer});
      if (encoded_ && layer > *encoded_ + 1 && layer < last && layer - 1 != *encoded_)
        model_.edges.push_back({*encoded_, layer});
    }
  }

  Model take() { return std::move(model_); }
  /// The layer with the words that the head may share.
  int words() const { return words_; }

 private:
  const Blueprint& blueprint_;
  Model model_;
  std::optional<int> encoded_;
  int words_ = 0;
};

}  // namespace

ModelHead read_head(const Json& outer, const Blueprint& blueprint) {
  const ModelHead usual = blueprint.names_images ? ModelHead::sequence : ModelHead::words;
  if (!outer.contains("architectures") || outer["architectures"].is_null()) return usual;
  const std::vector<Json> names = outer["architectures"].elements();
  if (names.empty()) return usual;
  const std::string name = names.front().string();
  if (name.ends_with("EncoderModel") && !blueprint.encoder.empty()) return ModelHead::encoder;
  if (name.ends_with("ForCausalLM") && !blueprint.encoder.empty()) {
    names.front().fail(concat("\"", name,
                              "\" is a decoder without its encoder, which is not known ",
                              "here; known is \"…ForConditionalGeneration\""));
  }
  for (const NamedHead& row : known_heads) {
    if (name.ends_with(row.end)) return row.head;
  }
  std::vector<std::string> known;
  for (const NamedHead& row : known_heads) known.push_back("…" + std::string(row.end));
  names.front().fail(concat("the head of \"", name, "\" is not known; known are names of the form ",
                            join_words(known)));
}

std::int64_t read_classes(const Json& outer, std::int64_t otherwise) {
  constexpr std::int64_t most_classes = 1 << 24;
  if (outer.contains("id2label") && outer["id2label"].is_object()) {
    const std::size_t labels = outer["id2label"].names().size();
    if (labels > 0) return static_cast<std::int64_t>(labels);
  }
  if (outer.contains("num_labels") && !outer["num_labels"].is_null())
    return outer["num_labels"].integer(1, most_classes);
  return otherwise;
}

namespace {

/// The encoder as a model of its own.
Blueprint encoder_of(Blueprint blueprint) {
  blueprint.blocks = std::move(blueprint.encoder);
  blueprint.encoder.clear();
  blueprint.last = blueprint.encoder_last;
  blueprint.numbers.causal = false;
  return blueprint;
}

}  // namespace

Model assemble(std::string name, const Blueprint& blueprint, ModelHead head, std::int64_t classes,
               std::int64_t sequence) {
  // Classes of tokens are the encoder's business in the library, too.
  const bool encodes =
      head == ModelHead::encoder || (head == ModelHead::tokens && !blueprint.own_words);
  if (!blueprint.encoder.empty() && encodes)
    return assemble(std::move(name), encoder_of(blueprint), head, classes, sequence);
  Assembly assembly(blueprint);
  if (blueprint.encoder.empty()) {
    assembly.add("embedding", LayerKind::embedding, blueprint.embedding);
  } else {
    assembly.add_encoder();
  }
  assembly.add_blocks();
  for (std::int64_t module = 0; module < blueprint.prediction_modules; ++module) {
    assembly.add(concat("prediction.", module), LayerKind::prediction, prediction_steps(blueprint));
  }
  const int last = assembly.add("head", LayerKind::head, steps_of_head(blueprint, head, classes));
  assembly.connect();
  Model model = assembly.take();
  model.name = std::move(name);
  model.transformer = blueprint.numbers;
  model.transformer->tied_head = blueprint.numbers.tied_head && head == ModelHead::words;
  if (model.transformer->tied_head) {
    const Steps& embedding =
        blueprint.own_words ? blueprint.decoder_embedding : blueprint.embedding;
    const Step& words = embedding.front();
    model.ties.push_back({assembly.words(), last, words.outputs * words.inputs});
  }
  return make_stepped(std::move(model), sequence);
}

}  // namespace stagecraft
