// A stand-in for a device with memory of its own, on the CPU: nobody can read its tensors but
// itself, calls return before they are done, and it stores bf16.
//
// Its addresses lie where no process has memory, so that whoever follows one without asking the
// backend ends at once. What it is asked for it does only when somebody waits for it: whoever looks
// at a result that was not finished finds the old numbers. bf16 is computed in fp32 and rounded.

#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/backends/dry.hpp"
#include "executor/values/bfloat16.hpp"

namespace stagecraft::tests {

class DistantBackend : public Backend {
 public:
  /// From the process's memory to the addresses of tensors.
  static constexpr std::uintptr_t distance = std::uintptr_t{1} << 62;

  Tensor allocate_apart(std::vector<std::int64_t> shape, Precision precision) override {
    std::int64_t bytes = element_bytes(precision);
    for (const std::int64_t extent : shape) bytes *= extent;
    const Tensor near = cpu_->allocate({(bytes + 3) / 4}, Precision::float32);
    return {.storage = moved(near.storage, +distance),
            .shape = std::move(shape),
            .precision = precision};
  }
  Bytes allocated_bytes() const override { return cpu_->allocated_bytes(); }
  Bytes peak_bytes() const override { return cpu_->peak_bytes(); }
  void reset_peak() override { cpu_->reset_peak(); }

  void finish() override {
    for (auto& call : std::exchange(asked_, {})) call();
  }
  void upload(std::span<const std::byte> from, Tensor& to) override {
    finish();
    Tensor near = here(to);
    std::ranges::copy(from, bytes_of(near).begin());
  }
  void download(const Tensor& from, std::span<std::byte> to) override {
    finish();
    std::ranges::copy(bytes_of(here(from)), to.begin());
  }

  void zero(Tensor& x) override {
    later([this, x] {
      Tensor near = here(x);
      std::ranges::fill(bytes_of(near), std::byte{0});
    });
  }
  void copy(const Tensor& from, Tensor& to) override {
    later([this, from, to] {
      Tensor near = here(to);
      std::ranges::copy(bytes_of(here(from)), bytes_of(near).begin());
    });
  }
  void convert(const Tensor& from, Tensor& to) override {
    later([this, from, to] { cpu_->copy(in(from), Out(*this, to)); });
  }
  Late<bool> is_finite(const Tensor& x) override {
    finish();
    return cpu_->is_finite(in(x));
  }
  void add(const Tensor& x, Tensor& y) override {
    later([this, x, y] { cpu_->add(in(x), Out(*this, y)); });
  }
  void largest(const Tensor& x, Tensor& y) override {
    later([this, x, y] { cpu_->largest(in(x), Out(*this, y)); });
  }
  void matmul(const Tensor& a, bool ta, const Tensor& b, bool tb, Tensor& c, bool sum) override {
    later([=, this] { cpu_->matmul(in(a), ta, in(b), tb, Out(*this, c), sum); });
  }
  void add_bias(const Tensor& bias, Tensor& x) override {
    later([=, this] { cpu_->add_bias(in(bias), Out(*this, x)); });
  }
  void bias_gradient(const Tensor& gradient, Tensor& sum) override {
    later([=, this] { cpu_->bias_gradient(in(gradient), Out(*this, sum)); });
  }

  void layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                  Tensor& y, Tensor& mean, Tensor& scale) override {
    later([=, this] {
      cpu_->layer_norm(in(x), in(weight), in(bias), epsilon, Out(*this, y), Out(*this, mean),
                       Out(*this, scale));
    });
  }
  void layer_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                        const Tensor& scale, Tensor& dx) override {
    later([=, this] {
      cpu_->layer_norm_input(in(dy), in(x), in(weight), in(mean), in(scale), Out(*this, dx));
    });
  }
  void layer_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& scale,
                         Tensor& dweight, Tensor& dbias) override {
    later([=, this] {
      cpu_->layer_norm_weight(in(dy), in(x), in(mean), in(scale), Out(*this, dweight),
                              Out(*this, dbias));
    });
  }
  void rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y,
                Tensor& scale) override {
    later([=, this] {
      cpu_->rms_norm(in(x), in(weight), epsilon, Out(*this, y), Out(*this, scale));
    });
  }
  void rms_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight, const Tensor& scale,
                      Tensor& dx) override {
    later(
        [=, this] { cpu_->rms_norm_input(in(dy), in(x), in(weight), in(scale), Out(*this, dx)); });
  }
  void rms_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& scale,
                       Tensor& dweight) override {
    later([=, this] { cpu_->rms_norm_weight(in(dy), in(x), in(scale), Out(*this, dweight)); });
  }

  void norm_queries_and_keys(Tensor& qkv, const AttentionShape& shape, const Tensor& query_weight,
                             const Tensor& key_weight, double epsilon, Tensor& raw,
                             Tensor& scale) override {
    later([=, this] {
      cpu_->norm_queries_and_keys(Out(*this, qkv), shape, in(query_weight), in(key_weight), epsilon,
                                  Out(*this, raw), Out(*this, scale));
    });
  }
  void norm_queries_and_keys_input(Tensor& dqkv, const AttentionShape& shape, const Tensor& raw,
                                   const Tensor& scale, const Tensor& query_weight,
                                   const Tensor& key_weight, Tensor& dnormed) override {
    later([=, this] {
      cpu_->norm_queries_and_keys_input(Out(*this, dqkv), shape, in(raw), in(scale),
                                        in(query_weight), in(key_weight), Out(*this, dnormed));
    });
  }
  void norm_queries_and_keys_weight(const Tensor& dnormed, const AttentionShape& shape,
                                    const Tensor& raw, const Tensor& scale, Tensor& dquery_weight,
                                    Tensor& dkey_weight) override {
    later([=, this] {
      cpu_->norm_queries_and_keys_weight(in(dnormed), shape, in(raw), in(scale),
                                         Out(*this, dquery_weight), Out(*this, dkey_weight));
    });
  }

  void exact_gelu(const Tensor& x, Tensor& y) override {
    later([=, this] { cpu_->exact_gelu(in(x), Out(*this, y)); });
  }
  void exact_gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    later([=, this] { cpu_->exact_gelu_input(in(dy), in(x), Out(*this, dx)); });
  }
  void geglu(const Tensor& x, Tensor& y) override {
    later([=, this] { cpu_->geglu(in(x), Out(*this, y)); });
  }
  void geglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    later([=, this] { cpu_->geglu_input(in(dy), in(x), Out(*this, dx)); });
  }
  void one_more(const Tensor& x, Tensor& y) override {
    later([=, this] { cpu_->one_more(in(x), Out(*this, y)); });
  }

  void gelu(const Tensor& x, Tensor& y) override {
    later([=, this] { cpu_->gelu(in(x), Out(*this, y)); });
  }
  void gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    later([=, this] { cpu_->gelu_input(in(dy), in(x), Out(*this, dx)); });
  }
  void swiglu(const Tensor& x, Tensor& y) override {
    later([=, this] { cpu_->swiglu(in(x), Out(*this, y)); });
  }
  void swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) override {
    later([=, this] { cpu_->swiglu_input(in(dy), in(x), Out(*this, dx)); });
  }
  void rotary(Tensor& qkv, const AttentionShape& shape, std::span<const double> frequencies,
              bool inverse) override {
    later([=, this, kept = kept_copy(frequencies)] {
      cpu_->rotary(Out(*this, qkv), shape, kept, inverse);
    });
  }
  void attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                 Tensor& log_sum) override {
    later([=, this] { cpu_->attention(in(qkv), shape, Out(*this, y), Out(*this, log_sum)); });
  }
  void attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y, const Tensor& log_sum,
                       const AttentionShape& shape, Tensor& dqkv) override {
    later([=, this] {
      cpu_->attention_input(in(dy), in(qkv), in(y), in(log_sum), shape, Out(*this, dqkv));
    });
  }

  void relu(Tensor& x) override {
    later([=, this] { cpu_->relu(Out(*this, x)); });
  }
  void relu_input(const Tensor& dy, const Tensor& y, Tensor& dx) override {
    later([=, this] { cpu_->relu_input(in(dy), in(y), Out(*this, dx)); });
  }
  void images(std::span<const std::int32_t> pixels, Tensor& y) override {
    later([=, this, kept = kept_copy(pixels)] { cpu_->images(kept, Out(*this, y)); });
  }
  void convolution(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const ConvolutionShape& shape, Tensor& y) override {
    later([=, this] { cpu_->convolution(in(x), in(weight), in(bias), shape, Out(*this, y)); });
  }
  void convolution_input(const Tensor& dy, const Tensor& weight, const ConvolutionShape& shape,
                         Tensor& dx) override {
    later([=, this] { cpu_->convolution_input(in(dy), in(weight), shape, Out(*this, dx)); });
  }
  void convolution_weight(const Tensor& dy, const Tensor& x, const ConvolutionShape& shape,
                          Tensor& dweight, Tensor& dbias) override {
    later([=, this] {
      cpu_->convolution_weight(in(dy), in(x), shape, Out(*this, dweight), Out(*this, dbias));
    });
  }
  void max_pool(const Tensor& x, const PoolShape& shape, Tensor& y) override {
    later([=, this] { cpu_->max_pool(in(x), shape, Out(*this, y)); });
  }
  void max_pool_input(const Tensor& dy, const Tensor& x, const PoolShape& shape,
                      Tensor& dx) override {
    later([=, this] { cpu_->max_pool_input(in(dy), in(x), shape, Out(*this, dx)); });
  }

  void embedding(std::span<const std::int32_t> tokens, const Tensor& table, std::int64_t first,
                 const Tensor& positions, std::int64_t sequence, Tensor& y) override {
    later([=, this, kept = kept_copy(tokens)] {
      cpu_->embedding(kept, in(table), first, in(positions), sequence, Out(*this, y));
    });
  }
  void embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy, std::int64_t first,
                        std::int64_t sequence, Tensor& dtable, Tensor& dpositions) override {
    later([=, this, kept = kept_copy(tokens)] {
      cpu_->embedding_weight(kept, in(dy), first, sequence, Out(*this, dtable),
                             Out(*this, dpositions));
    });
  }
  Late<double> cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                             double scale) override {
    finish();
    return cpu_->cross_entropy(Out(*this, logits), targets, scale);
  }
  void largest_logits(const Tensor& logits, Tensor& tops) override {
    later([=, this] { cpu_->largest_logits(in(logits), Out(*this, tops)); });
  }
  void exponentials(Tensor& logits, const Tensor& tops, std::span<const std::int32_t> targets,
                    std::int64_t first, Tensor& sums) override {
    later([=, this, kept = kept_copy(targets)] {
      cpu_->exponentials(Out(*this, logits), in(tops), kept, first, Out(*this, sums));
    });
  }
  Late<double> cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                     std::span<const std::int32_t> targets, std::int64_t first,
                                     double scale) override {
    finish();
    return cpu_->cross_entropy_of_part(Out(*this, logits), in(sums), targets, first, scale);
  }

  void adamw(const AdamW& options, int step, const Tensor& gradient, Tensor& first, Tensor& second,
             const Tensor& weight, Tensor& updated) override {
    later([=, this] {
      cpu_->adamw(options, step, in(gradient), Out(*this, first), Out(*this, second), in(weight),
                  Out(*this, updated));
    });
  }
  void sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
           Tensor& updated) override {
    later([=, this] { cpu_->sgd(options, in(gradient), in(weight), Out(*this, updated)); });
  }
  void scale(double factor, Tensor& x) override {
    later([=, this] { cpu_->scale(factor, Out(*this, x)); });
  }
  std::vector<double> sums_of_squares(std::span<const Tensor> tensors) override {
    finish();
    std::vector<Tensor> near;
    for (const Tensor& far : tensors) near.push_back(in(far));
    return cpu_->sums_of_squares(near);
  }

 private:
  static std::shared_ptr<void> moved(const std::shared_ptr<void>& storage, std::uintptr_t by) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage.get()) + by;
    return {storage, reinterpret_cast<void*>(address)};
  }
  static Tensor here(const Tensor& far) {
    return {.storage = far.empty() ? nullptr : moved(far.storage, ~distance + 1),
            .shape = far.shape,
            .precision = far.precision};
  }

  /// What the CPU computes with.
  Tensor in(const Tensor& far) {
    const Tensor near = here(far);
    if (near.empty() || near.precision != Precision::bfloat16) return near;
    Tensor wide = host_tensor(near.shape, Precision::float32);
    std::transform(near.data<Bfloat16>(), near.data<Bfloat16>() + near.elements(),
                   wide.data<float>(), [](Bfloat16 x) { return static_cast<float>(x); });
    return wide;
  }

  /// The same, written back when the call is over.
  class Out {
   public:
    Out(DistantBackend& backend, const Tensor& far) : near_(here(far)), wide_(backend.in(far)) {}
    ~Out() {
      if (near_.empty() || near_.precision != Precision::bfloat16) return;
      std::transform(wide_.data<float>(), wide_.data<float>() + wide_.elements(),
                     near_.data<Bfloat16>(), [](float x) { return Bfloat16(x); });
    }
    Out(const Out&) = delete;
    Out& operator=(const Out&) = delete;
    operator Tensor&() { return wide_; }

   private:
    Tensor near_;
    Tensor wide_;
  };

  template <class T>
  static std::vector<T> kept_copy(std::span<const T> values) {
    return {values.begin(), values.end()};
  }
  void later(std::function<void()> call) { asked_.push_back(std::move(call)); }

  std::unique_ptr<Backend> cpu_ = make_cpu_backend();
  std::vector<std::function<void()>> asked_;
};

}  // namespace stagecraft::tests
