#include <algorithm>

#include "executor/backends/cuda/kernels.hpp"
#include "executor/backends/cuda/launch.cuh"

namespace stagecraft::cuda {

namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1 << 14;

/// `n` at a time, and one by one what is left of them.
template <int n, class Element>
__global__ void __launch_bounds__(threads) each_element(std::int64_t count, Element element) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  for (std::int64_t i = first; i < count / n; i += step) element.template at<n>(i * n);
  if constexpr (n > 1) {
    const std::int64_t rest = count / n * n + first;
    if (rest < count) element.template at<1>(rest);
  }
}

template <int n, class Element>
void launch_each(cudaStream_t stream, std::int64_t count, const Element& element) {
  const std::int64_t blocks = std::min(most_blocks, (count / n + threads) / threads);
  launch(each_element<n, Element>, dim3(static_cast<unsigned>(blocks)), threads, stream, count,
         element);
}

}  // namespace

template <class Element>
void for_each_element(cudaStream_t stream, std::int64_t count, const Element& element) {
  if (count == 0) return;
  constexpr int at_once = in_pack<typename Element::Element>;
  if (element.takes(at_once)) return launch_each<at_once>(stream, count, element);
  launch_each<1>(stream, count, element);
}

#define STAGECRAFT_INSTANTIATE(...) \
  template void for_each_element(cudaStream_t, std::int64_t, const __VA_ARGS__&);
#define STAGECRAFT_INSTANTIATE_OF(T)         \
  STAGECRAFT_INSTANTIATE(Add<T>)             \
  STAGECRAFT_INSTANTIATE(Largest<T>)         \
  STAGECRAFT_INSTANTIATE(FindInfinite<T>)    \
  STAGECRAFT_INSTANTIATE(AddBias<T>)         \
  STAGECRAFT_INSTANTIATE(Gelu<T>)            \
  STAGECRAFT_INSTANTIATE(GeluInput<T>)       \
  STAGECRAFT_INSTANTIATE(Swiglu<T>)          \
  STAGECRAFT_INSTANTIATE(SwigluInput<T>)     \
  STAGECRAFT_INSTANTIATE(Rotary<T>)          \
  STAGECRAFT_INSTANTIATE(HeadsApart<T>)      \
  STAGECRAFT_INSTANTIATE(HeadsTogether<T>)   \
  STAGECRAFT_INSTANTIATE(Embedding<T>)       \
  STAGECRAFT_INSTANTIATE(EmbeddingWeight<T>) \
  STAGECRAFT_INSTANTIATE(PositionWeight<T>)  \
  STAGECRAFT_INSTANTIATE(GradientOfPart<T>)  \
  STAGECRAFT_INSTANTIATE(Scale<T>)

STAGECRAFT_INSTANTIATE_OF(float)
STAGECRAFT_INSTANTIATE_OF(Bfloat16)
STAGECRAFT_INSTANTIATE(Convert<float, Bfloat16>)
STAGECRAFT_INSTANTIATE(Convert<Bfloat16, float>)

}  // namespace stagecraft::cuda
