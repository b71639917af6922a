// Kernels that go element by element.

#include "executor/backends/cuda/kernels.hpp"
#include "tests/cuda/simt/trials.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace stagecraft::cuda;

namespace {

double gelu(double x) {
  return x / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double gate = 1 / (1 + std::exp(-1.5957691216057308 * (x + 0.044715 * x * x * x)));
  return gate + x * gate * (1 - gate) * 1.5957691216057308 * (1 + 3 * 0.044715 * x * x);
}
double silu(double x) {
  return x / (1 + std::exp(-x));
}
double silu_slope(double x) {
  const double gate = 1 / (1 + std::exp(-x));
  return gate + x * gate * (1 - gate);
}

/// What a kernel made of `element_of(y)` leaves in y, which begins as given.
template <class T, class ElementOf>
Values left_in(const std::vector<T>& begin, std::int64_t count, std::int64_t beside,
               const ElementOf& element_of) {
  return by_two_orders([&](cudaStream_t stream) {
    Fenced<T> y(begin, beside);
    for_each_element(stream, count, element_of(y.data()));
    return results(stream, y);
  })[0];
}

template <class T>
std::vector<T> empty(std::int64_t count) {
  return std::vector<T>(static_cast<std::size_t>(count), T(NAN));
}

template <class T>
void plain(std::int64_t count, std::int64_t beside) {
  const Fenced<T> x(noise<T>(count), beside), begin(noise<T>(count), beside);
  const std::vector<T> y(begin.data(), begin.data() + count);
  const auto sums = left_in(y, count, beside, [&](T* to) { return Add<T>{x.data(), to}; });
  CHECK(largest_error(sums, expected(count, [&](auto i) { return x[i] + begin[i]; })) <
        tolerated<T>);
  const auto larger = left_in(y, count, beside, [&](T* to) { return Largest<T>{x.data(), to}; });
  CHECK(larger == expected(count, [&](auto i) { return std::max(x[i], begin[i]); }));
  const auto scaled = left_in(y, count, beside, [&](T* to) { return Scale<T>{to, 0.3f}; });
  CHECK(largest_error(scaled, expected(count, [&](auto i) { return 0.3 * begin[i]; })) <
        tolerated<T>);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{0}, count - 1}) {
    Fenced<T> looked_at(y, beside);
    if (bad >= 0) looked_at.data()[bad] = T(bad == 0 ? INFINITY : NAN);
    const auto flag = left_in<std::int32_t>({0}, count, 0, [&](auto* to) {
      return FindInfinite<T>{looked_at.data(), to};
    });
    CHECK(flag == Values{bad >= 0 ? 1.0 : 0.0});
  }
}

void conversions(std::int64_t count, std::int64_t beside) {
  const Fenced<float> x(noise<float>(count), beside);
  const auto rounded = left_in(empty<Bfloat16>(count), count, beside, [&](Bfloat16* to) {
    return Convert<float, Bfloat16>{x.data(), to};
  });
  CHECK(rounded == expected(count, [&](auto i) { return wide(Bfloat16(x.data()[i])); }));
  const Fenced<Bfloat16> y(noise<Bfloat16>(count), beside);
  const auto widened = left_in(empty<float>(count), count, beside, [&](float* to) {
    return Convert<Bfloat16, float>{y.data(), to};
  });
  CHECK(widened == y.values());
}

template <class T>
void activations(std::int64_t columns, std::int64_t beside) {
  const std::int64_t count = 7 * columns;
  const Fenced<T> x(noise<T>(2 * count, 0, 3), beside), dy(noise<T>(count), beside),
      bias(noise<T>(columns), beside);
  const auto is_near = [&](const Values& actual, const auto& formula) {
    const auto size = static_cast<std::int64_t>(actual.size());
    return largest_error(actual, expected(size, formula)) < tolerated<T>;
  };
  const std::vector<T> begin(x.data(), x.data() + count);
  CHECK(is_near(left_in(begin, count, beside,
                        [&](T* to) {
                          return AddBias<T>{bias.data(), to, columns};
                        }),
                [&](auto i) { return x[i] + bias[i % columns]; }));
  const auto none = empty<T>(count);
  CHECK(is_near(left_in(none, count, beside,
                        [&](T* to) {
                          return Gelu<T>{x.data(), to};
                        }),
                [&](auto i) { return gelu(x[i]); }));
  CHECK(is_near(left_in(none, count, beside,
                        [&](T* to) {
                          return GeluInput<T>{dy.data(), x.data(), to};
                        }),
                [&](auto i) { return dy[i] * gelu_slope(x[i]); }));
  const auto gate = [&](auto i) { return x[i / columns * 2 * columns + i % columns]; };
  const auto up = [&](auto i) { return x[i / columns * 2 * columns + i % columns + columns]; };
  CHECK(is_near(left_in(none, count, beside,
                        [&](T* to) {
                          return Swiglu<T>{x.data(), to, columns};
                        }),
                [&](auto i) { return silu(gate(i)) * up(i); }));
  CHECK(is_near(left_in(empty<T>(2 * count), count, beside,
                        [&](T* to) {
                          return SwigluInput<T>{dy.data(), x.data(), to, columns};
                        }),
                [&](auto i) {
                  const auto of = i / (2 * columns) * columns + i % columns;
                  return i / columns % 2 == 0 ? dy[of] * up(of) * silu_slope(gate(of))
                                              : dy[of] * silu(gate(of));
                }));
}

template <class T>
void heads(std::int64_t pairs, std::int64_t beside) {
  const std::int64_t samples = 2, sequence = 5, heads = 3, width = 5 * 2 * pairs;
  const std::int64_t rows = samples * sequence;
  std::vector<Turn> turns;
  for (std::int64_t i = 0; i < sequence * pairs; ++i) {
    const auto angle = static_cast<float>(i);
    turns.push_back({std::cos(angle), std::sin(angle)});
  }
  const Fenced<T> begin(noise<T>(rows * width), beside);
  const std::vector<T> qkv(begin.data(), begin.data() + rows * width);
  for (const float direction : {1.0f, -1.0f}) {
    const auto turned = left_in(qkv, rows * heads * pairs, beside, [&](T* to) {
      return Rotary<T>{to, turns.data(), sequence, heads, pairs, width, direction};
    });
    const auto formula = [&](auto i) {
      const auto column = i % width;
      if (column >= heads * 2 * pairs) return begin[i];
      const auto pair = column % pairs;
      const Turn& turn = turns[static_cast<std::size_t>(i / width % sequence * pairs + pair)];
      const double sine = static_cast<double>(direction * turn.sine);
      const bool is_first = column % (2 * pairs) < pairs;
      return begin[i] * static_cast<double>(turn.cosine) +
             (is_first ? -begin[i + pairs] : begin[i - pairs]) * sine;
    };
    CHECK(largest_error(turned, expected(rows * width, formula)) < tolerated<T>);
  }
  // Of one sample: rows of heads of which more columns follow.
  const std::int64_t of_a_head = 2 * pairs, count = heads * sequence * of_a_head;
  const HeadsApart<T> shape{begin.data(), nullptr, sequence, of_a_head, width};
  const auto place = [&](auto i) {
    const auto head = i / (sequence * of_a_head), position = i / of_a_head % sequence;
    return position * width + head * of_a_head + i % of_a_head;
  };
  const auto apart = left_in(empty<T>(count), count, beside, [&](T* to) {
    return HeadsApart<T>{begin.data(), to, sequence, of_a_head, width};
  });
  CHECK(apart == expected(count, [&](auto i) { return begin[place(i)]; }));
  const Fenced<T> heads_apart(noise<T>(count), beside);
  const auto together = left_in(qkv, count, beside, [&](T* to) {
    return HeadsTogether<T>{shape, heads_apart.data(), to};
  });
  Values all = begin.values();
  for (std::int64_t i = 0; i < count; ++i) {
    all[static_cast<std::size_t>(place(i))] = heads_apart[i];
  }
  CHECK(together == all);
}

template <class T>
void tokens(std::int64_t columns, std::int64_t beside) {
  const std::int64_t tokens = 20, sequence = 5, rows = 9, first = 4;
  const Fenced<std::int32_t> there(indices(tokens, 16));
  const Fenced<T> table(noise<T>(rows * columns), beside),
      positions(noise<T>(sequence * columns), beside);
  const Fenced<T> dy(noise<T>(tokens * columns), beside);
  const std::int64_t count = tokens * columns;
  for (const bool has_positions : {true, false}) {
    const auto found = left_in(empty<T>(count), count, beside, [&](T* to) {
      return Embedding<T>{there.data(), table.data(), has_positions ? positions.data() : nullptr,
                          to,           first,        rows,
                          columns,      sequence};
    });
    const auto formula = [&](auto i) {
      const auto row = static_cast<std::int64_t>(there[i / columns]) - first;
      const bool is_here = 0 <= row && row < rows;
      return (is_here ? table[row * columns + i % columns] : 0.0) +
             (has_positions ? positions[i / columns % sequence * columns + i % columns] : 0.0);
    };
    CHECK(largest_error(found, expected(count, formula)) < tolerated<T>);
  }
  // Three tokens stand somewhere; the last list is empty.
  const Fenced<std::int32_t> places(std::vector<std::int32_t>{7, 0, 3, 8}), starts({0, 2, 3, 6, 6});
  const Fenced<std::int32_t> lists(std::vector<std::int32_t>{1, 19, 4, 0, 2, 13});
  const Fenced<float> dtable(noise<float>(rows * columns), beside);
  Values sums = dtable.values();
  for (std::int64_t list = 0; list < 3; ++list) {
    for (auto at = starts.data()[list]; at < starts.data()[list + 1]; ++at) {
      for (std::int64_t column = 0; column < columns; ++column) {
        sums[static_cast<std::size_t>(places.data()[list] * columns + column)] +=
            dy[lists.data()[at] * columns + column];
      }
    }
  }
  const std::vector<float> begin(dtable.data(), dtable.data() + rows * columns);
  CHECK(largest_error(left_in(begin, 4 * columns, beside,
                              [&](float* to) {
                                return EmbeddingWeight<T>{
                                    dy.data(), places.data(), starts.data(), lists.data(),
                                    to,        columns};
                              }),
                      sums) < tolerated<float>);
  const auto of_positions = left_in(begin, sequence * columns, beside, [&](float* to) {
    return PositionWeight<T>{dy.data(), to, columns, sequence, tokens / sequence};
  });
  const auto formula = [&](auto i) {
    double sum = dtable[i];
    for (std::int64_t sample = 0; i < sequence * columns && sample < tokens / sequence; ++sample) {
      sum += dy[sample * sequence * columns + i];
    }
    return sum;
  };
  CHECK(largest_error(of_positions, expected(rows * columns, formula)) < tolerated<float>);
}

template <class T>
void part_of_vocabulary(std::int64_t columns, std::int64_t beside) {
  const std::int64_t rows = 11, first = columns;
  const Fenced<T> logits(noise<T>(rows * columns, 1, 0.2), beside);
  const Fenced<float> sums(noise<float>(2 * rows, 40, 3), beside);
  const Fenced<std::int32_t> targets(indices(rows, 3 * columns));
  const std::vector<T> begin(logits.data(), logits.data() + rows * columns);
  const auto gradient = left_in(begin, rows * columns, beside, [&](T* to) {
    return GradientOfPart<T>{to, sums.data(), targets.data(), first, columns, 0.25f};
  });
  const auto formula = [&](auto i) {
    const bool hit = targets.data()[i / columns] - first == i % columns;
    return 0.25 * (logits[i] / sums[2 * (i / columns)] - (hit ? 1 : 0));
  };
  CHECK(largest_error(gradient, expected(rows * columns, formula)) < tolerated<T>);
}

void more_than_a_grid() {
  const std::int64_t count = (1 << 22) + 300, beside = 1;
  const std::vector<Bfloat16> begin = noise<Bfloat16>(count);
  const auto scaled = left_in(begin, count, beside, [&](Bfloat16* to) {
    return Scale<Bfloat16>{to, -2.0f};
  });
  // In parentheses, for nobody reads four million numbers.
  CHECK((scaled == expected(count, [&](auto i) { return -2 * wide(begin[std::size_t(i)]); })));
}

/// In packs, and one by one: because of the number of columns, or of where memory begins.
template <class T>
void all_element_trials() {
  for (const std::int64_t beside : {0, 1}) {
    for (const std::int64_t count : {1, 33, 256, 1000, 1003, 5000}) plain<T>(count, beside);
    for (const std::int64_t columns : {1, 33, 96, 100}) activations<T>(columns, beside);
    for (const std::int64_t pairs : {13, 16}) heads<T>(pairs, beside);
    for (const std::int64_t columns : {33, 40}) tokens<T>(columns, beside);
    for (const std::int64_t columns : {35, 40}) part_of_vocabulary<T>(columns, beside);
  }
}

void all_conversions() {
  for (const std::int64_t beside : {0, 1}) {
    for (const std::int64_t count : {1, 33, 256, 1000, 1003}) conversions(count, beside);
  }
}

}  // namespace

std::vector<Trial> tests::element_trials() {
  return {{"elements in fp32", all_element_trials<float>},
          {"elements in bf16", all_element_trials<Bfloat16>},
          {"conversions", all_conversions},
          {"more elements than a grid has threads", more_than_a_grid}};
}
