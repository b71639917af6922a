#include "executor/backends/cuda/pending_sums.hpp"

#include <algorithm>
#include <utility>

namespace stagecraft::cuda {

namespace {

std::uintptr_t begin_of(const Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.storage.get());
}

std::uintptr_t end_of(const Tensor& tensor) {
  return tensor.empty() ? 0 : begin_of(tensor) + static_cast<std::uintptr_t>(tensor.bytes());
}

bool overlap(const Tensor& a, const Tensor& b) {
  return begin_of(a) < end_of(b) && begin_of(b) < end_of(a);
}

bool are_same(const Tensor& a, const Tensor& b) {
  return !a.empty() && begin_of(a) == begin_of(b) && end_of(a) == end_of(b);
}

template <class Matches>
std::optional<NormPass> last_of(const std::vector<NormPass>& passes, const Matches& matches) {
  const auto found = std::find_if(passes.rbegin(), passes.rend(), matches);
  if (found == passes.rend()) return {};
  return *found;
}

}  // namespace

std::optional<NormPass> PendingSums::pass_of(const Tensor& dy, const Tensor& x) const {
  return last_of(
      passes_, [&](const NormPass& pass) { return are_same(pass.dy, dy) && are_same(pass.x, x); });
}

std::optional<NormPass> PendingSums::pass_to(const Tensor& dx) const {
  return last_of(passes_, [&](const NormPass& pass) { return are_same(pass.dx, dx); });
}

void PendingSums::wrote(const Tensor& tensor) {
  if (passes_.empty() || tensor.empty()) return;
  for (NormPass& pass : passes_) {
    for (Tensor* known : {&pass.dy, &pass.x, &pass.dx}) {
      if (overlap(*known, tensor)) *known = {};
    }
  }
}

void PendingSums::add(const ColumnSums& sums, int which, float* to, bool adds) {
  list_.sums[list_.count++] = {.chunks = sums.of(which),
                               .to = to,
                               .count = sums.chunks,
                               .columns = sums.columns,
                               .adds = adds};
  rooms_.push_back(sums.numbers);
}

bool PendingSums::touch(const Tensor& tensor) const {
  return std::any_of(list_.sums, list_.sums + list_.count, [&](const ChunkSums& sums) {
    const auto begin = reinterpret_cast<std::uintptr_t>(sums.to);
    const auto end = reinterpret_cast<std::uintptr_t>(sums.to + sums.columns);
    return begin < end_of(tensor) && begin_of(tensor) < end;
  });
}

std::pair<ChunkSumsList, std::vector<std::shared_ptr<float>>> PendingSums::take() {
  return {std::exchange(list_, {}), std::exchange(rooms_, {})};
}

}  // namespace stagecraft::cuda
