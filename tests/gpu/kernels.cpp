#include <cmath>
#include <cstdint>

#include "profiles/error.hpp"
#include "tests/gpu/bench.hpp"
#include "tests/gpu/checks.hpp"

namespace stagecraft::gpu {

namespace {

struct Kernel {
  std::string name;
  std::function<std::vector<Tensor>(Bench&)> run;
  double tolerated_in_fp32 = 1e-5;
};

// --- The operations ------------------------------------------------------------------------------

std::vector<Kernel> plain_kernels() {
  std::vector<Kernel> kernels{
      {"add",
       [](Bench& b) {
         Tensor x = b.input({33, 70}), y = b.input({33, 70});
         b.backend().add(x, y);
         return std::vector{y};
       }},
      {"largest",
       [](Bench& b) {
         Tensor x = b.input({999}), y = b.input({999});
         b.backend().largest(x, y);
         return std::vector{y};
       }},
      {"copy and zero",
       [](Bench& b) {
         Tensor x = b.input({777}), y = b.output({777}), z = b.output({777});
         b.backend().copy(x, y);
         b.backend().zero(z);
         return std::vector{y, z};
       }},
      {"bias and its gradient",
       [](Bench& b) {
         Tensor x = b.input({40, 96}), bias = b.input({96}), sums = b.sum({96});
         b.backend().add_bias(bias, x);
         b.backend().bias_gradient(x, sums);
         return std::vector{x, sums};
       }},
      {"gelu",
       [](Bench& b) {
         Tensor x = b.input({64, 256}, 0, 3), dy = b.input({64, 256});
         Tensor y = b.output({64, 256}), dx = b.output({64, 256});
         b.backend().gelu(x, y);
         b.backend().gelu_input(dy, x, dx);
         return std::vector{y, dx};
       }},
      {"swiglu",
       [](Bench& b) {
         Tensor x = b.input({64, 512}, 0, 3), dy = b.input({64, 256});
         Tensor y = b.output({64, 256}), dx = b.output({64, 512});
         b.backend().swiglu(x, y);
         b.backend().swiglu_input(dy, x, dx);
         return std::vector{y, dx};
       }},
      {"adamw and sgd",
       [](Bench& b) {
         Tensor weight = b.sum({5000}), gradient = b.sum({5000});
         Tensor first = b.sum({5000}), second = b.sum({5000}, 2, 0.1);
         for (int step = 1; step <= 3; ++step) {
           b.backend().adamw({.weight_decay = 0.1}, step, gradient, first, second, weight, weight);
         }
         b.backend().sgd({}, gradient, weight, weight);
         return std::vector{weight, first, second};
       }},
  };
  // Rows of a warp, many and few, and rows of a block.
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes{{517, 40}, {33, 768}, {3, 5000}};
  for (const auto& [rows, width] : sizes) {
    kernels.push_back({concat("LayerNorm of ", width), [rows = rows, width = width](Bench& b) {
                         Tensor x = b.input({rows, width}, 0.5, 2), dy = b.input({rows, width});
                         Tensor weight = b.input({width}, 1, 0.2), bias = b.input({width});
                         Tensor y = b.output({rows, width}), dx = b.output({rows, width});
                         Tensor mean = b.output_of_sums({rows}), scale = b.output_of_sums({rows});
                         Tensor dweight = b.sum({width}), dbias = b.sum({width});
                         b.backend().layer_norm(x, weight, bias, 1e-5, y, mean, scale);
                         b.backend().layer_norm_input(dy, x, weight, mean, scale, dx);
                         b.backend().layer_norm_weight(dy, x, mean, scale, dweight, dbias);
                         Tensor past = b.input({rows, width}), sum = b.output({rows, width});
                         b.backend().norm_input_and_residual(dy, x, weight, mean, scale, past, sum);
                         return std::vector{y, mean, scale, dx, dweight, dbias, sum};
                       }});
    kernels.push_back({concat("RMSNorm of ", width), [rows = rows, width = width](Bench& b) {
                         Tensor x = b.input({rows, width}, 0.5, 2), dy = b.input({rows, width});
                         Tensor weight = b.input({width}, 1, 0.2), y = b.output({rows, width});
                         Tensor dx = b.output({rows, width}), scale = b.output_of_sums({rows});
                         Tensor dweight = b.sum({width});
                         b.backend().rms_norm(x, weight, 1e-5, y, scale);
                         b.backend().rms_norm_input(dy, x, weight, scale, dx);
                         b.backend().rms_norm_weight(dy, x, scale, dweight);
                         Tensor past = b.input({rows, width}), sum = b.output({rows, width});
                         b.backend().norm_input_and_residual(dy, x, weight, {}, scale, past, sum);
                         return std::vector{y, scale, dx, dweight, sum};
                       }});
  }
  return kernels;
}

/// Linear maps with what is fused to them: rows that an epilogue takes, and a width that it does
/// not.
std::vector<Kernel> linear_maps() {
  std::vector<Kernel> kernels;
  for (const std::int64_t width : {96, 52}) {
    kernels.push_back({concat("linear map to ", width), [width](Bench& b) {
                         Tensor x = b.input({64, 128}), weight = b.input({128, width}, 0, 0.1);
                         Tensor bias = b.input({width}), past = b.input({64, width});
                         Tensor plain = b.output({64, width}), with_bias = b.output({64, width});
                         Tensor with_past = b.output({64, width}), all = b.output({64, width});
                         b.backend().linear(x, weight, {}, {}, plain);
                         b.backend().linear(x, weight, bias, {}, with_bias);
                         b.backend().linear(x, weight, {}, past, with_past);
                         b.backend().linear(x, weight, bias, past, all);
                         return std::vector{plain, with_bias, with_past, all};
                       }});
    kernels.push_back({concat("linear map to ", width, ", then gelu, and back"),
                       [width](Bench& b) {
                         Tensor x = b.input({64, 128}), weight = b.input({128, width}, 0, 0.1);
                         Tensor bias = b.input({width}), down = b.input({width, 80}, 0, 0.1);
                         Tensor dy = b.input({64, 80}), known = b.input({64, width});
                         Tensor before = b.output({64, width}), y = b.output({64, width});
                         Tensor before_alone = b.output({64, width}), alone = b.output({64, width});
                         Tensor dx = b.output({64, width});
                         b.backend().linear_gelu(x, weight, bias, before, y);
                         b.backend().linear_gelu(x, weight, {}, before_alone, alone);
                         b.backend().linear_gelu_input(dy, down, known, dx);
                         return std::vector{before, y, before_alone, alone, dx};
                       },
                       tolerated_of_fused_activations});
    kernels.push_back(
        {concat("gradient of a weight to ", width, ", with its bias's"), [width](Bench& b) {
           Tensor x = b.input({64, 128}), dy = b.input({64, width});
           Tensor dweight = b.sum({128, width}), dbias = b.sum({width});
           Tensor alone = b.sum({128, width}), none;
           b.backend().linear_weight(x, dy, dweight, dbias);
           b.backend().linear_weight(x, dy, alone, none);
           return std::vector{dweight, dbias, alone};
         }});
  }
  return kernels;
}

/// Twice, as weights change and tables of tensors stay.
std::vector<Tensor> step_of_many(Bench& b) {
  std::vector<WeightUpdate> updates;
  std::vector<Tensor> results;
  for (const std::int64_t size : {5000, 40000, 7, 16384}) {
    const Tensor weight = b.sum({size});
    updates.push_back({.gradient = b.sum({size}),
                       .first_moment = b.sum({size}),
                       .second_moment = b.sum({size}, 2, 0.1),
                       .weight = weight,
                       .updated = weight,
                       .rounded = b.rounds() ? b.output({size}) : Tensor{}});
  }
  for (int step = 1; step <= 2; ++step) {
    b.backend().adamw_step({.weight_decay = 0.1}, step, 1, updates);
  }
  b.backend().sgd_step({.learning_rate = 0.1}, 0.25, updates);
  for (const WeightUpdate& each : updates) {
    results.insert(results.end(), {each.updated, each.first_moment, each.second_moment});
    // Where nothing is rounded, the number itself stands for it.
    results.push_back(each.rounded.empty() ? each.updated : each.rounded);
  }
  return results;
}

std::vector<Kernel> steps_of_many() {
  return {{"adamw and sgd of many weights", [](Bench& b) { return step_of_many(b); }},
          {"squares of many gradients, and scaling", [](Bench& b) {
             std::vector<Tensor> tensors{b.sum({5000}), b.sum({40000}), b.sum({1})};
             std::vector<Tensor> results;
             for (const double sum : b.backend().sums_of_squares(tensors)) {
               results.push_back(b.number(sum));
             }
             b.backend().scale(0.25, tensors[1]);
             results.push_back(tensors[1]);
             return results;
           }}};
}

std::vector<Kernel> products() {
  std::vector<Kernel> kernels;
  for (const int transposed : {0, 1, 2}) {
    kernels.push_back({concat("product ", transposed == 0   ? "NN"
                                          : transposed == 1 ? "NT"
                                                            : "TN"),
                       [transposed](Bench& b) {
                         Tensor x = b.input(transposed == 2 ? std::vector<std::int64_t>{128, 64}
                                                            : std::vector<std::int64_t>{64, 128});
                         Tensor w = b.input(transposed == 1 ? std::vector<std::int64_t>{96, 128}
                                                            : std::vector<std::int64_t>{128, 96});
                         // Gradients of weights are sums, and added to.
                         Tensor y = transposed == 2 ? b.sum({64, 96}) : b.output({64, 96});
                         b.backend().matmul(x, transposed == 2, w, transposed == 1, y,
                                            transposed == 2);
                         return std::vector{y};
                       }});
  }
  return kernels;
}

struct Heads {
  std::int64_t samples, sequence, heads, shared, width;
};

std::vector<Kernel> attention_kernels() {
  std::vector<Kernel> kernels;
  for (const Heads h : {Heads{2, 32, 6, 6, 64}, Heads{1, 48, 4, 2, 128}, Heads{2, 37, 4, 2, 24}}) {
    const AttentionShape shape{.samples = h.samples,
                               .sequence = h.sequence,
                               .heads = h.heads,
                               .key_value_heads = h.shared,
                               .head_width = h.width};
    const std::string words = concat(h.heads, "/", h.shared, " heads of ", h.width);
    const std::int64_t packed = (h.heads + 2 * h.shared) * h.width;
    kernels.push_back({"attention, " + words, [=](Bench& b) {
                         Tensor qkv = b.input({h.samples, h.sequence, packed});
                         Tensor dy = b.input({h.samples, h.sequence, h.heads * h.width});
                         Tensor y = b.output({h.samples, h.sequence, h.heads * h.width});
                         Tensor log_sum = b.output_of_sums({h.samples, h.heads, h.sequence});
                         Tensor dqkv = b.output({h.samples, h.sequence, packed});
                         b.backend().attention(qkv, shape, y, log_sum);
                         b.backend().attention_input(dy, qkv, y, log_sum, shape, dqkv);
                         return std::vector{y, log_sum, dqkv};
                       }});
    kernels.push_back(
        {"rotary, " + words, [=](Bench& b) {
           std::vector<double> frequencies;
           for (std::int64_t i = 0; i < h.width / 2; ++i) {
             frequencies.push_back(
                 std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(h.width)));
           }
           Tensor there = b.input({h.samples, h.sequence, packed}),
                  back = b.input({h.samples, h.sequence, packed});
           b.backend().rotary(there, shape, frequencies, false);
           b.backend().rotary(back, shape, frequencies, true);
           return std::vector{there, back};
         }});
  }
  return kernels;
}

std::vector<Kernel> vocabulary_kernels() {
  return {
      {"embedding",
       [](Bench& b) {
         const auto tokens = b.tokens(64, 100);
         Tensor table = b.input({60, 48}), positions = b.input({16, 48}), dy = b.input({64, 48});
         Tensor y = b.output({64, 48}), dtable = b.sum({60, 48}), dpositions = b.sum({16, 48});
         b.backend().embedding(tokens, table, 20, positions, 16, y);
         b.backend().embedding_weight(tokens, dy, 20, 16, dtable, dpositions);
         return std::vector{y, dtable, dpositions};
       }},
      {"loss of a vocabulary",
       [](Bench& b) {
         const auto targets = b.tokens(2, 50257);
         Tensor logits = b.input({2, 50257}, 0, 3);
         const double loss = b.backend().cross_entropy(logits, targets, 1.0);
         return std::vector{logits, b.number(loss)};
       }},
      {"loss of an odd vocabulary, and back",
       [](Bench& b) {
         const auto targets = b.tokens(40, 61);
         Tensor x = b.input({40, 64}), table = b.input({61, 64}, 0, 0.1);
         Tensor logits = b.output_rows({40, 61}), dx = b.output({40, 64});
         Tensor dtable = b.sum({61, 64});
         b.backend().matmul(x, false, table, true, logits, false);
         const double loss = b.backend().cross_entropy(logits, targets, 1.0);
         b.backend().matmul(logits, false, table, false, dx, false);
         b.backend().matmul(logits, true, x, false, dtable, true);
         return std::vector{dx, dtable, b.number(loss)};
       }},
      {"loss of a part",
       [](Bench& b) {
         const auto targets = b.tokens(10, 3000);
         Tensor logits = b.input({10, 1000}, 0, 3), tops = b.output_of_sums({10});
         Tensor sums = b.output_of_sums({10, 2});
         b.backend().largest_logits(logits, tops);
         b.backend().exponentials(logits, tops, targets, 1000, sums);
         const double loss = b.backend().cross_entropy_of_part(logits, sums, targets, 1000, 1.0);
         return std::vector{logits, tops, sums, b.number(loss)};
       }},
  };
}

// --- Comparing -----------------------------------------------------------------------------------

std::vector<Values> results(const Kernel& kernel, Backend& backend, Precision compared,
                            Precision stored, unsigned seed) {
  Bench bench(backend, compared, stored, seed);
  std::vector<Values> all;
  for (const Tensor& tensor : kernel.run(bench)) all.push_back(Bench::values(backend, tensor));
  return all;
}

std::string name_of(const Kernel& kernel, Precision precision) {
  return concat(kernel.name, " in ", to_string(precision));
}

Outcome compare(const Kernel& kernel, Backend& cpu, Backend& gpu, Precision precision,
                unsigned seed) {
  const double tolerated = precision == Precision::bfloat16 ? 1e-2 : kernel.tolerated_in_fp32;
  const auto expected = results(kernel, cpu, precision, Precision::float64, seed);
  const auto actual = results(kernel, gpu, precision, precision, seed);
  const double worst = largest_error(actual, expected);
  const bool repeats = actual == results(kernel, gpu, precision, precision, seed);
  return {.name = name_of(kernel, precision),
          .words = concat("error ", worst, repeats ? "" : "; other bits the second time"),
          .passed = worst <= tolerated && repeats};
}

std::string name_of_finite(Precision precision) {
  return concat("what is no number in ", to_string(precision));
}

Outcome check_finite(Backend& gpu, Precision precision) {
  Bench bench(gpu, precision, precision, 1);
  const Tensor good = bench.input({4097});
  const Tensor bad = bench.output({4097});
  return {.name = name_of_finite(precision),
          .words = "found where it is, and only there",
          .passed = gpu.is_finite(good) && !gpu.is_finite(bad)};
}

}  // namespace

void check_kernels(Backend& gpu, const KernelChecks& checks, const Report& report) {
  const auto cpu = make_cpu_backend();
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    if (precision == Precision::bfloat16 && !checks.in_bf16) continue;
    for (const auto& kernels : {plain_kernels(), products(), linear_maps(), steps_of_many(),
                                attention_kernels(), vocabulary_kernels()}) {
      for (const Kernel& kernel : kernels) {
        if (kernel.name.find(checks.only) == std::string::npos) continue;
        if (!is_wanted(checks.wanted, name_of(kernel, precision))) continue;
        report(compare(kernel, *cpu, gpu, precision, checks.seed));
      }
    }
    if (is_wanted(checks.wanted, name_of_finite(precision))) report(check_finite(gpu, precision));
  }
}

}  // namespace stagecraft::gpu
