#include <fmt/format.h>

#include "profiles/error.hpp"
#include "tests/gpu/bench.hpp"
#include "tests/gpu/checks.hpp"
#include "tests/gpu/matrices.hpp"

namespace stagecraft::gpu {

namespace {

constexpr int rounds = 3;

Rows columns_of_heads(const Rows& heads, std::int64_t first, std::int64_t width) {
  Rows columns;
  for (const std::int64_t head : heads) {
    for (std::int64_t i = 0; i < width; ++i) columns.push_back(first + head * width + i);
  }
  return columns;
}

Rows joined(std::initializer_list<Rows> parts) {
  Rows all;
  for (const Rows& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Attention over rows that follow from their places: whole, or of a part of samples and heads.
struct Problem {
  AttentionShape shape;
  Rows rows, heads, packed;  ///< columns of dy and y; columns of queries, keys and values

  std::int64_t width() const { return shape.heads * shape.head_width; }
};

/// With as many heads for keys as for queries.
Problem part_of(const AttentionShape& shape, const Rows& samples, const Rows& heads) {
  Problem part{.shape = shape};
  for (const std::int64_t sample : samples) {
    for (std::int64_t i = 0; i < shape.sequence; ++i) {
      part.rows.push_back(sample * shape.sequence + i);
    }
  }
  const std::int64_t width = shape.heads * shape.head_width;
  part.heads = columns_of_heads(heads, 0, shape.head_width);
  part.packed = joined({part.heads, columns_of_heads(heads, width, shape.head_width),
                        columns_of_heads(heads, 2 * width, shape.head_width)});
  part.shape.samples = static_cast<std::int64_t>(samples.size());
  part.shape.heads = part.shape.key_value_heads = static_cast<std::int64_t>(heads.size());
  return part;
}

/// The tensors of one problem on a backend.
struct Attended {
  Attended(Backend& on, const AttentionShape& all, const Problem& problem, Precision precision,
           unsigned seed)
      : backend(on), shape(problem.shape) {
    const std::int64_t rows = all.samples * all.sequence, width = all.heads * all.head_width;
    qkv = made(backend, {rows, 3 * width, seed}, problem.rows, problem.packed, precision);
    dy = made(backend, {rows, width, seed + 1}, problem.rows, problem.heads, precision);
    y = poisoned(backend, dy.shape, precision);
    log_sum = poisoned(backend, {shape.samples, shape.heads, shape.sequence},
                       precision_of_sums(precision));
    dqkv = poisoned(backend, qkv.shape, precision);
  }

  void run() {
    backend.attention(qkv, shape, y, log_sum);
    backend.attention_input(dy, qkv, y, log_sum, shape, dqkv);
  }
  std::vector<std::vector<std::byte>> bytes() const {
    std::vector<std::vector<std::byte>> all;
    for (const Tensor* tensor : {&y, &log_sum, &dqkv}) {
      backend.download(*tensor, all.emplace_back(static_cast<std::size_t>(tensor->bytes())));
    }
    return all;
  }

  Backend& backend;
  AttentionShape shape;
  Tensor qkv, dy, y, log_sum, dqkv;
};

/// These columns of these rows.
Values part_in(Backend& backend, const Tensor& tensor, const Rows& rows, const Rows& columns) {
  const std::int64_t width = tensor.shape.back();
  const Tensor part = rows_of(tensor, rows.front(), rows.back() + 1);
  const Values whole_rows = Bench::values(backend, part);
  Values found;
  for (const std::int64_t row : rows) {
    for (const std::int64_t column : columns) {
      found.push_back(whole_rows[static_cast<std::size_t>((row - rows.front()) * width + column)]);
    }
  }
  return found;
}

/// The first and the last head of the last sample, beside the CPU.
double error_of(Attended& ours, const AttentionShape& shape, unsigned seed) {
  const auto cpu = make_cpu_backend();
  const Problem part = part_of(shape, {shape.samples - 1}, {0, shape.heads - 1});
  Attended theirs(*cpu, shape, part, Precision::float64, seed);
  theirs.run();
  return largest_error({part_in(ours.backend, ours.y, part.rows, part.heads),
                        part_in(ours.backend, ours.dqkv, part.rows, part.packed)},
                       {Bench::values(*cpu, theirs.y), Bench::values(*cpu, theirs.dqkv)});
}

Outcome check(const AttentionChecks& checks, const AttentionShape& shape, bool deterministic,
              const std::string& name) {
  std::string remarks;
  const auto gpu =
      checks.make(0, {.deterministic = deterministic,
                      .remark = [&](const std::string& remark) { remarks += "; " + remark; }});
  const Problem all = part_of(shape, all_of(shape.samples), all_of(shape.heads));
  Attended ours(*gpu, shape, all, checks.precision, checks.seed);
  ours.run();
  const auto first = ours.bytes();
  int others = 0;
  for (int round = 1; round < rounds; ++round) {
    ours.run();
    if (ours.bytes() != first) ++others;
  }
  const double error = error_of(ours, shape, checks.seed);
  const double tolerated = checks.precision == Precision::bfloat16 ? 1e-2 : 1e-5;
  return {.name = name,
          .words = fmt::format("error {:.1e}, {} of {} further rounds with other bits{}", error,
                               others, rounds - 1, remarks),
          .passed = error <= tolerated && (others == 0 || !deterministic)};
}

}  // namespace

void check_attention(const AttentionChecks& checks, const Report& report) {
  for (const bool deterministic : {true, false}) {
    for (const AttentionShape& shape : checks.shapes) {
      const std::string name = fmt::format(
          "attention of {} x {} tokens, {} heads of {}, {}", shape.samples, shape.sequence,
          shape.heads, shape.head_width, deterministic ? "in one order" : "in any order");
      if (is_wanted(checks.wanted, name)) report(check(checks, shape, deterministic, name));
    }
  }
}

}  // namespace stagecraft::gpu
