#include <algorithm>

#include "executor/backends/cuda/kernels.hpp"
#include "executor/backends/cuda/launch.cuh"

namespace stagecraft::cuda {

namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1 << 14;

template <class Element>
__global__ void __launch_bounds__(threads) each_element(std::int64_t count, Element element) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < count;
       i += step) {
    element(i);
  }
}

}  // namespace

template <class Element>
void for_each_element(cudaStream_t stream, std::int64_t count, const Element& element) {
  if (count == 0) return;
  const std::int64_t blocks = std::min(most_blocks, (count + threads - 1) / threads);
  launch(each_element<Element>, dim3(static_cast<unsigned>(blocks)), threads, stream, count, element);
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
