// Operations on tokens: embeddings and losses.

#include <cmath>

#include "executor/backends/cuda/cuda_backend_parts.hpp"
#include "executor/backends/cuda/token_lists.hpp"

namespace stagecraft::cuda {

void CudaBackend::embedding(std::span<const std::int32_t> tokens, const Tensor& table,
                            std::int64_t first, const Tensor& positions, std::int64_t sequence,
                            Tensor& y) {
  const auto there = on_device(tokens);
  with_type(table.precision, [&]<class T>(T) {
    each_element(y.elements(), Embedding<T>{.tokens = there.get(),
                                            .table = table.data<T>(),
                                            .positions = positions.data<T>(),
                                            .y = y.data<T>(),
                                            .first = first,
                                            .rows = row_count(table),
                                            .columns = column_count(table),
                                            .sequence = sequence});
  });
}

void CudaBackend::embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy,
                                   std::int64_t first, std::int64_t sequence, Tensor& dtable,
                                   Tensor& dpositions) {
  // Only the rows of tokens that are there are added to.
  settle(dtable);
  settle(dpositions);
  const std::int64_t columns = column_count(dtable);
  const TokenLists lists = token_lists(tokens, first, row_count(dtable));
  const auto places = on_device(std::span<const std::int32_t>(lists.places));
  const auto starts = on_device(std::span<const std::int32_t>(lists.starts));
  const auto rows = on_device(std::span<const std::int32_t>(lists.rows));
  with_type(dy.precision, [&]<class T>(T) {
    each_element(static_cast<std::int64_t>(lists.places.size()) * columns,
                 EmbeddingWeight<T>{dy.data<T>(), places.get(), starts.get(), rows.get(),
                                    dtable.data<float>(), columns});
    if (dpositions.empty()) return;
    each_element(sequence * columns,
                 PositionWeight<T>{dy.data<T>(), dpositions.data<float>(), columns, sequence,
                                   row_count(dy) / sequence});
  });
}

Late<double> CudaBackend::cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                                        double scale) {
  const std::int64_t rows = row_count(logits);
  const auto there = on_device(targets);
  auto losses = room<double>(rows);
  with_type(logits.precision, [&]<class T>(T) {
    for_each_row(
        commands_, rows, column_count(logits),
        CrossEntropyRows<T>{logits.data<T>(), there.get(), losses.get(), column_count(logits),
                            logits.row_stride(), static_cast<float>(scale)});
  });
  return later<double, double>(std::move(losses), rows, [](auto of_rows) {
    double sum = 0;
    for (const double loss : of_rows) sum += loss;
    return sum;
  });
}

void CudaBackend::largest_logits(const Tensor& logits, Tensor& tops) {
  with_type(logits.precision, [&]<class T>(T) {
    for_each_row(commands_, row_count(logits), column_count(logits),
                 LargestRows<T>{logits.data<T>(), tops.data<float>(), column_count(logits),
                                logits.row_stride()});
  });
}

void CudaBackend::exponentials(Tensor& logits, const Tensor& tops,
                               std::span<const std::int32_t> targets, std::int64_t first,
                               Tensor& sums) {
  const auto there = on_device(targets);
  with_type(logits.precision, [&]<class T>(T) {
    for_each_row(
        commands_, row_count(logits), column_count(logits),
        ExponentialRows<T>{logits.data<T>(), tops.data<float>(), there.get(), sums.data<float>(),
                           first, column_count(logits), logits.row_stride()});
  });
}

Late<double> CudaBackend::cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                                std::span<const std::int32_t> targets,
                                                std::int64_t first, double scale) {
  const auto there = on_device(targets);
  with_type(logits.precision, [&]<class T>(T) {
    each_element(row_count(logits) * logits.row_stride(),
                 GradientOfPart<T>{logits.data<T>(), sums.data<float>(), there.get(), first,
                                   logits.row_stride(), static_cast<float>(scale)});
  });
  // The tensor itself stays until it has been read.
  return later<double, float>(
      std::shared_ptr<float>(sums.storage, const_cast<float*>(sums.data<float>())), sums.elements(),
      [](auto numbers) {
        double loss = 0;
        for (std::size_t i = 0; i < numbers.size(); i += 2) {
          loss += std::log(static_cast<double>(numbers[i])) - static_cast<double>(numbers[i + 1]);
        }
        return loss;
      });
}

}  // namespace stagecraft::cuda
