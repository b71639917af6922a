// How close a transformer block, and a stage of a whole model with its optimizer, come to their
// matrix products alone: forward and both backward passes, one thread.
//
// The counter `products` is the time of the products, called by themselves on matrices of the same
// shapes, divided by the time of the block or stage: 1 would mean that everything else is free.
// Both are timed in turn, so that a busy machine slows both.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "executor/layers/layers.hpp"
#include "executor/measurement/measured_layer.hpp"

namespace stagecraft {

namespace {

struct Shape {
  std::int64_t rows, inner, columns;
};

Transformer gpt(std::int64_t hidden) {
  return {.hidden = hidden,
          .heads = hidden / 64,
          .key_value_heads = hidden / 64,
          .head_width = 64,
          .feed_forward = 4 * hidden,
          .vocabulary = 256,
          .positions = 4096};
}

Transformer llama(std::int64_t hidden) {
  Transformer transformer = gpt(hidden);
  transformer.key_value_heads = std::max<std::int64_t>(1, transformer.heads / 4);
  transformer.feed_forward = 8 * hidden / 3 / 32 * 32;
  transformer.norm = Transformer::Norm::rms_norm;
  transformer.activation = Transformer::FeedForward::swiglu;
  transformer.position = Transformer::Position::rotary;
  transformer.attention_bias = transformer.output_bias = transformer.feed_forward_bias = false;
  transformer.norm_epsilon = 1e-5;
  return transformer;
}

// One matrix product with matrices of its own.
class ProductBench {
 public:
  ProductBench(Backend& backend, Shape shape, bool transpose_a, bool transpose_b, bool accumulate)
      : backend_(backend),
        transpose_a_(transpose_a),
        transpose_b_(transpose_b),
        accumulate_(accumulate) {
    const auto [rows, inner, columns] = shape;
    a_ = zeros(transpose_a ? std::vector{inner, rows} : std::vector{rows, inner});
    b_ = zeros(transpose_b ? std::vector{columns, inner} : std::vector{inner, columns});
    c_ = zeros({rows, columns});
  }
  void run() { backend_.matmul(a_, transpose_a_, b_, transpose_b_, c_, accumulate_); }

 private:
  Tensor zeros(std::vector<std::int64_t> shape) {
    Tensor tensor = backend_.allocate(std::move(shape), Precision::float32);
    backend_.zero(tensor);
    return tensor;
  }

  Backend& backend_;
  bool transpose_a_, transpose_b_, accumulate_;
  Tensor a_, b_, c_;
};

// y = x w and its two gradients.
void add_linear(std::vector<ProductBench>& products, Backend& backend, Shape shape) {
  const auto [rows, inner, columns] = shape;
  products.emplace_back(backend, shape, false, false, false);
  products.emplace_back(backend, Shape{rows, columns, inner}, false, true, false);
  products.emplace_back(backend, Shape{inner, rows, columns}, true, false, true);
}

// Scores, mix; scores again, and the gradients of values, probabilities, queries and keys, for
// causal blocks of queries.
void add_attention(std::vector<ProductBench>& products, Backend& backend, std::int64_t sequence,
                   std::int64_t width) {
  constexpr std::int64_t block = 64;
  for (std::int64_t first = 0; first < sequence; first += block) {
    const std::int64_t rows = std::min(block, sequence - first), keys = first + rows;
    for (int time = 0; time < 3; ++time) {
      products.emplace_back(backend, Shape{rows, width, keys}, false, true, false);
    }
    for (int time = 0; time < 2; ++time) {
      products.emplace_back(backend, Shape{rows, keys, width}, false, false, false);
      products.emplace_back(backend, Shape{keys, rows, width}, true, false, true);
    }
  }
}

// Of this thread's time: other programs' share of the core is not counted.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds_of(auto work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

// The products of a block, forward and backward.
class BlockProducts {
 public:
  BlockProducts(Backend& backend, const Transformer& transformer, std::int64_t samples,
                std::int64_t sequence)
      : heads_(samples * transformer.heads) {
    const std::int64_t rows = samples * sequence, hidden = transformer.hidden;
    const std::int64_t up = transformer.feed_forward *
                            (transformer.activation == Transformer::FeedForward::swiglu ? 2 : 1);
    add_linear(linears_, backend,
               {rows, hidden, hidden + 2 * transformer.key_value_heads * transformer.head_width});
    add_linear(linears_, backend, {rows, hidden, hidden});
    add_linear(linears_, backend, {rows, hidden, up});
    add_linear(linears_, backend, {rows, transformer.feed_forward, hidden});
    add_attention(attention_, backend, sequence, transformer.head_width);
  }

  void run() {
    for (ProductBench& product : linears_) product.run();
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (ProductBench& product : attention_) product.run();
    }
  }

 private:
  std::int64_t heads_;
  std::vector<ProductBench> linears_, attention_;
};

// Times `work` and its products in turn.
template <class Work, class Products>
void compare(benchmark::State& state, Work work, Products products) {
  double work_seconds = 0, product_seconds = 0;
  for (auto _ : state) {
    const double time = seconds_of(work);
    product_seconds += seconds_of(products);
    work_seconds += time;
    state.SetIterationTime(time);
  }
  state.counters["products"] = product_seconds / work_seconds;
}

void pass(MeasuredLayer& layer) {
  layer.forward(0, 0);
  layer.backward_input(0, 0);
  layer.backward_weight(0, 0);
}

void block(benchmark::State& state, const Transformer& transformer) {
  const std::int64_t samples = state.range(1), sequence = state.range(2);
  const Model model = make_transformer("benchmark", transformer, 1, sequence);
  MeasuredLayer layer(model, 1, {.samples = samples}, make_cpu_backend());
  const auto backend = make_cpu_backend();
  BlockProducts products(*backend, transformer, samples, sequence);
  compare(
      state, [&] { pass(layer); }, [&] { products.run(); });
}

// A step of one microbatch: embedding, blocks, head with a vocabulary of 8192, AdamW.
void stage(benchmark::State& state, Transformer transformer) {
  constexpr int blocks = 4;
  transformer.vocabulary = 8192;
  const std::int64_t samples = state.range(1), sequence = state.range(2);
  const Model model = make_transformer("benchmark", transformer, blocks, sequence);
  std::vector<MeasuredLayer> layers;
  for (int i = 0; i < blocks + 2; ++i) {
    layers.emplace_back(model, i, MeasuredSize{samples}, make_cpu_backend());
  }
  const auto backend = make_cpu_backend();
  BlockProducts products(*backend, transformer, samples, sequence);
  std::vector<ProductBench> head;
  add_linear(head, *backend, {samples * sequence, transformer.hidden, transformer.vocabulary});
  compare(
      state,
      [&] {
        for (MeasuredLayer& layer : layers) pass(layer);
        for (MeasuredLayer& layer : layers) layer.update(0);
      },
      [&] {
        for (int i = 0; i < blocks; ++i) products.run();
        for (ProductBench& product : head) product.run();
      });
  state.SetItemsProcessed(state.iterations() * samples * sequence);
}

void gpt_block(benchmark::State& state) {
  block(state, gpt(state.range(0)));
}
void llama_block(benchmark::State& state) {
  block(state, llama(state.range(0)));
}
void gpt_stage(benchmark::State& state) {
  stage(state, gpt(state.range(0)));
}
void llama_stage(benchmark::State& state) {
  stage(state, llama(state.range(0)));
}

// hidden, samples, tokens per sample
void layer_shapes(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t hidden : {256, 512, 768}) {
    benchmark->Args({hidden, 4, 128})->Args({hidden, 1, 512})->Args({hidden, 1, 1024});
  }
  benchmark->UseManualTime()->Unit(benchmark::kMillisecond);
}

BENCHMARK(gpt_block)->Apply(layer_shapes);
BENCHMARK(llama_block)->Apply(layer_shapes);
BENCHMARK(gpt_stage)->Apply(layer_shapes);
BENCHMARK(llama_stage)->Apply(layer_shapes);

}  // namespace

}  // namespace stagecraft
