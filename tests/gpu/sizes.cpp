#include <fmt/format.h>

#include "tests/gpu/bench.hpp"
#include "tests/gpu/checks.hpp"
#include "tests/gpu/matrices.hpp"

namespace stagecraft::gpu {

namespace {

/// What one check needs to know of a backend, and which rows and columns it makes there.
struct Side {
  Backend& backend;
  Precision precision;
  bool is_sampled;

  Tensor input(const Matrix& matrix) const { return whole(backend, matrix, precision); }
  /// Of what every row of the result has one of.
  Tensor input_rows(const Matrix& matrix) const {
    if (!is_sampled) return input(matrix);
    return made(backend, matrix, sampled(matrix.rows), all_of(matrix.columns), precision);
  }
  /// Of what is transposed in the product.
  Tensor input_columns(const Matrix& matrix) const {
    if (!is_sampled) return input(matrix);
    return made(backend, matrix, all_of(matrix.rows), sampled(matrix.columns), precision);
  }
  Tensor sum_rows(const Matrix& matrix) const {
    return made(backend, matrix, is_sampled ? sampled(matrix.rows) : all_of(matrix.rows),
                all_of(matrix.columns), precision_of_sums(precision));
  }
  std::int64_t count(std::int64_t rows) const {
    return is_sampled ? static_cast<std::int64_t>(sampled(rows).size()) : rows;
  }
  Tensor output(std::int64_t rows, std::int64_t columns) const {
    return poisoned(backend, {count(rows), columns}, precision);
  }
  Tensor bias(std::int64_t columns, std::uint64_t seed) const {
    return reshaped(input({1, columns, seed}), {columns});
  }
  Tensor sum_of_rows(std::int64_t columns, std::uint64_t seed) const {
    return reshaped(
        made(backend, {1, columns, seed}, {0}, all_of(columns), precision_of_sums(precision)),
        {columns});
  }
};

/// Calls on tensors that are ready, and what they make.
struct Calls {
  std::function<void()> run;
  std::vector<Tensor> results;
};

struct SizedCheck {
  std::string name;
  double operations = 0;  ///< of one run; 0: it moves more than it computes
  std::function<Calls(const Side&)> prepare;
  bool is_sampled = true;  ///< of the results, rows are compared
  double tolerated_in_fp32 = 1e-5;
  double moved = 0;  ///< elements read and written at least, where that is what takes the time
};

double seconds_of(Backend& backend, const std::function<void()>& call) {
  constexpr int repeats = 10;
  backend.finish();
  const Moment start = now();
  for (int i = 0; i < repeats; ++i) call();
  backend.finish();
  return static_cast<double>((now() - start).count()) * 1e-9 / repeats;
}

std::string rate_words(const SizedCheck& check, double seconds, Precision precision) {
  if (check.operations > 0)
    return fmt::format("{:.0f} TFLOP/s", check.operations / seconds * 1e-12);
  const double bytes = check.moved * static_cast<double>(element_bytes(precision));
  return fmt::format("{:.0f} GB/s", bytes / seconds * 1e-9);
}

Outcome compare(const std::string& name, const SizedCheck& check, Backend& cpu, Backend& gpu,
                Precision precision) {
  const Calls ours = check.prepare({gpu, precision, false});
  ours.run();
  std::vector<Values> actual;
  for (const Tensor& tensor : ours.results) {
    const bool one_row = tensor.shape.size() == 1 || !check.is_sampled;
    actual.push_back(one_row ? Bench::values(gpu, tensor)
                             : rows_in(gpu, tensor, sampled(tensor.shape.front())));
  }
  const double seconds = seconds_of(gpu, ours.run);
  const Calls theirs = check.prepare({cpu, Precision::float64, check.is_sampled});
  theirs.run();
  std::vector<Values> expected;
  for (const Tensor& tensor : theirs.results) expected.push_back(Bench::values(cpu, tensor));
  const double tolerated = precision == Precision::bfloat16 ? 1e-2 : check.tolerated_in_fp32;
  const double error = largest_error(actual, expected);
  return {.name = name,
          .words = fmt::format("error {:.1e}, {:.1f} us, {}", error, seconds * 1e6,
                               rate_words(check, seconds, precision)),
          .passed = error <= tolerated};
}

std::string shape_words(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  return fmt::format("{} x {} x {}", rows, inputs, outputs);
}

/// A linear map's forward, with what is fused to it, and its two gradients.
void add_linear(std::vector<SizedCheck>& checks, std::int64_t rows, std::int64_t inputs,
                std::int64_t outputs) {
  const Matrix x{rows, inputs, 1}, dy{rows, outputs, 2}, past{rows, outputs, 3};
  const Matrix weight{inputs, outputs, 4, 0.05};
  const std::string of = shape_words(rows, inputs, outputs);
  const double operations =
      2.0 * static_cast<double>(rows) * static_cast<double>(inputs) * static_cast<double>(outputs);
  checks.push_back({"product " + of, operations, [=](const Side& side) {
                      const Tensor a = side.input_rows(x), w = side.input(weight);
                      Tensor y = side.output(rows, outputs);
                      return Calls{[&b = side.backend, a, w, y]() mutable {
                                     b.matmul(a, false, w, false, y, false);
                                   },
                                   {y}};
                    }});
  checks.push_back({"product " + of + " with bias and residual", operations, [=](const Side& side) {
                      const Tensor a = side.input_rows(x), w = side.input(weight);
                      const Tensor bias = side.bias(outputs, 5), residual = side.input_rows(past);
                      Tensor y = side.output(rows, outputs);
                      return Calls{[&b = side.backend, a, w, bias, residual, y]() mutable {
                                     b.linear(a, w, bias, residual, y);
                                   },
                                   {y}};
                    }});
  checks.push_back({"gradient of the input of " + of, operations, [=](const Side& side) {
                      const Tensor d = side.input_rows(dy), w = side.input(weight);
                      Tensor dx = side.output(rows, inputs);
                      return Calls{[&b = side.backend, d, w, dx]() mutable {
                                     b.matmul(d, false, w, true, dx, false);
                                   },
                                   {dx}};
                    }});
  checks.push_back(
      {"gradient of the weight of " + of + ", added", operations, [=](const Side& side) {
         const Tensor a = side.input_columns(x), d = side.input(dy);
         Tensor dw = side.sum_rows({inputs, outputs, 6}), none;
         return Calls{
             [&b = side.backend, a, d, dw, none]() mutable { b.linear_weight(a, d, dw, none); },
             {dw}};
       }});
  checks.push_back(
      {"gradients of the weight and bias of " + of + ", added", operations, [=](const Side& side) {
         const Tensor a = side.input_columns(x), d = side.input(dy);
         Tensor dw = side.sum_rows({inputs, outputs, 6});
         Tensor db = side.sum_of_rows(outputs, 7);
         return Calls{
             [&b = side.backend, a, d, dw, db]() mutable { b.linear_weight(a, d, dw, db); },
             {dw, db}};
       }});
}

/// Up to the feed-forward's width with its activation, and back.
void add_activation(std::vector<SizedCheck>& checks, std::int64_t rows, std::int64_t width) {
  const std::int64_t inner = 4 * width;
  const Matrix x{rows, width, 1}, dy{rows, width, 2}, before{rows, inner, 3};
  const Matrix up{width, inner, 4, 0.05}, down{inner, width, 5, 0.05};
  const double operations =
      2.0 * static_cast<double>(rows) * static_cast<double>(width) * static_cast<double>(inner);
  checks.push_back({"product " + shape_words(rows, width, inner) + " with bias and gelu",
                    operations,
                    [=](const Side& side) {
                      const Tensor a = side.input_rows(x), w = side.input(up);
                      const Tensor bias = side.bias(inner, 6);
                      Tensor sums = side.output(rows, inner), y = side.output(rows, inner);
                      return Calls{[&b = side.backend, a, w, bias, sums, y]() mutable {
                                     b.linear_gelu(a, w, bias, sums, y);
                                   },
                                   {sums, y}};
                    },
                    true, tolerated_of_fused_activations});
  checks.push_back({"gradient of gelu behind " + shape_words(rows, width, inner), operations,
                    [=](const Side& side) {
                      const Tensor d = side.input_rows(dy), w = side.input(down);
                      const Tensor known = side.input_rows(before);
                      Tensor dx = side.output(rows, inner);
                      return Calls{[&b = side.backend, d, w, known, dx]() mutable {
                                     b.linear_gelu_input(d, w, known, dx);
                                   },
                                   {dx}};
                    },
                    true, tolerated_of_fused_activations});
}

/// The head: logits, their loss, and the gradients of both sides.
void add_head(std::vector<SizedCheck>& checks, std::int64_t rows, std::int64_t width,
              std::int64_t vocabulary) {
  const Matrix x{rows, width, 1}, table{vocabulary, width, 2, 0.05};
  const Matrix dlogits{rows, vocabulary, 3}, logits{rows, vocabulary, 4, 3};
  const std::string of = shape_words(rows, width, vocabulary);
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(width) *
                            static_cast<double>(vocabulary);
  checks.push_back({"logits " + of, operations, [=](const Side& side) {
                      const Tensor a = side.input_rows(x), w = side.input(table);
                      Tensor y = side.output(rows, vocabulary);
                      return Calls{[&b = side.backend, a, w, y]() mutable {
                                     b.matmul(a, false, w, true, y, false);
                                   },
                                   {y}};
                    }});
  checks.push_back({"gradient of the input of logits " + of, operations, [=](const Side& side) {
                      const Tensor d = side.input_rows(dlogits), w = side.input(table);
                      Tensor dx = side.output(rows, width);
                      return Calls{[&b = side.backend, d, w, dx]() mutable {
                                     b.matmul(d, false, w, false, dx, false);
                                   },
                                   {dx}};
                    }});
  checks.push_back(
      {"gradient of the table of logits " + of + ", added", operations, [=](const Side& side) {
         const Tensor d = side.input_columns(dlogits), a = side.input(x);
         Tensor dtable = side.sum_rows({vocabulary, width, 5});
         return Calls{[&b = side.backend, d, a, dtable]() mutable {
                        b.matmul(d, true, a, false, dtable, true);
                      },
                      {dtable}};
       }});
  checks.push_back({fmt::format("gradient of the loss of {} x {} logits", rows, vocabulary), 0,
                    [=](const Side& side) {
                      Tensor y = side.input_rows(logits);
                      const Rows taken = side.is_sampled ? sampled(rows) : all_of(rows);
                      std::vector<std::int32_t> targets;
                      for (const std::int64_t row : taken) {
                        targets.push_back(static_cast<std::int32_t>(row * 7919 % vocabulary));
                      }
                      return Calls{[&b = side.backend, y, targets]() mutable {
                                     (void)b.cross_entropy(y, targets, 1.0);
                                   },
                                   {y}};
                    }});
  checks.back().moved = 2.0 * static_cast<double>(rows) * static_cast<double>(vocabulary);
}

/// What others that move as much can be measured by.
void add_copy(std::vector<SizedCheck>& checks, std::int64_t rows, std::int64_t width) {
  const Matrix x{rows, width, 1};
  checks.push_back(
      {fmt::format("copy of {} x {}", rows, width), 0, [=](const Side& side) {
         const Tensor from = side.input_rows(x);
         Tensor to = side.output(rows, width);
         return Calls{[&b = side.backend, from, to]() mutable { b.copy(from, to); }, {to}};
       }});
  checks.back().moved = 2.0 * static_cast<double>(rows) * static_cast<double>(width);
}

/// Norms, whose weights' gradients are sums over all rows, so all of them are compared.
void add_norm(std::vector<SizedCheck>& checks, std::int64_t rows, std::int64_t width) {
  const Matrix x{rows, width, 1, 2}, dy{rows, width, 2}, past{rows, width, 3};
  struct Norm {
    Tensor x, dy, past, weight, bias, y, mean, scale, dx, dweight, dbias;
  };
  const auto norm_of = [=](const Side& side) {
    return Norm{.x = side.input(x),
                .dy = side.input(dy),
                .past = side.input(past),
                .weight = side.bias(width, 4),
                .bias = side.bias(width, 5),
                .y = poisoned(side.backend, {rows, width}, side.precision),
                .mean = poisoned(side.backend, {rows}, precision_of_sums(side.precision)),
                .scale = poisoned(side.backend, {rows}, precision_of_sums(side.precision)),
                .dx = poisoned(side.backend, {rows, width}, side.precision),
                .dweight = side.sum_of_rows(width, 6),
                .dbias = side.sum_of_rows(width, 7)};
  };
  checks.push_back({fmt::format("LayerNorm of {} x {}", rows, width), 0,
                    [=](const Side& side) {
                      Norm n = norm_of(side);
                      return Calls{[&b = side.backend, n]() mutable {
                                     b.layer_norm(n.x, n.weight, n.bias, 1e-5, n.y, n.mean,
                                                  n.scale);
                                   },
                                   {n.y}};
                    },
                    false});
  const double elements = static_cast<double>(rows) * static_cast<double>(width);
  checks.back().moved = 2 * elements;
  checks.push_back(
      {fmt::format("gradients of LayerNorm of {} x {}, with a residual", rows, width), 0,
       [=](const Side& side) {
         Norm n = norm_of(side);
         side.backend.layer_norm(n.x, n.weight, n.bias, 1e-5, n.y, n.mean, n.scale);
         return Calls{[&b = side.backend, n]() mutable {
                        b.norm_input_and_residual(n.dy, n.x, n.weight, n.mean, n.scale, n.past,
                                                  n.dx);
                        b.layer_norm_weight(n.dy, n.x, n.mean, n.scale, n.dweight, n.dbias);
                      },
                      {n.dx, n.dweight, n.dbias}};
       },
       false});
  checks.back().moved = 4 * elements;
}

std::vector<SizedCheck> sized_checks(const SizeChecks& asked) {
  std::vector<SizedCheck> checks;
  for (const std::int64_t width : asked.widths) {
    add_linear(checks, asked.rows, width, 3 * width);
    add_activation(checks, asked.rows, width);
    add_linear(checks, asked.rows, 4 * width, width);
    add_norm(checks, asked.rows, width);
    add_copy(checks, asked.rows, 4 * width);
    if (width == asked.widths.front()) add_head(checks, asked.rows, width, asked.vocabulary);
  }
  return checks;
}

}  // namespace

void check_sizes(const SizeChecks& checks, const Report& report) {
  const auto cpu = make_cpu_backend();
  const auto gpu = checks.make(0, {});
  for (const Precision precision : checks.precisions) {
    for (const SizedCheck& check : sized_checks(checks)) {
      const std::string name = fmt::format("{} in {}", check.name, to_string(precision));
      if (is_wanted(checks.wanted, name)) report(compare(name, check, *cpu, *gpu, precision));
    }
  }
}

}  // namespace stagecraft::gpu
