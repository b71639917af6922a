// Operation graphs of cuDNN, through the C API of its graph backend (cudnn_graph.h): descriptors
// with owners, and a builder that names what it adds.

#pragma once

#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace stagecraft::cuda {

/// Owner of one backend descriptor. Setting and finalising throw Error (execution) if cuDNN
/// refuses.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, const Descriptor& value);
  void finalize();

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

/// A tensor of a graph.
struct GraphTensor {
  const Descriptor* descriptor = nullptr;
};

using Extents = std::vector<std::int64_t>;

class GraphBuilder {
 public:
  /// In memory, at the address that the pointer with this id says when the graph runs.
  GraphTensor stored(std::int64_t id, cudnnDataType_t type, const Extents& extents,
                     const Extents& strides);
  /// A float given when the graph runs.
  GraphTensor number(std::int64_t id);
  /// Between two operations only.
  GraphTensor between(cudnnDataType_t type, const Extents& extents, const Extents& strides);

  void matmul(GraphTensor a, GraphTensor b, GraphTensor c);
  void pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor y);
  void pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor b, GraphTensor y,
                 cudnnDataType_t computed_in = CUDNN_DATA_FLOAT);
  /// y = which ? x : otherwise.
  void select(GraphTensor x, GraphTensor otherwise, GraphTensor which, GraphTensor y);
  /// Every element's index along an axis.
  void index(GraphTensor like, std::int64_t axis, GraphTensor y);
  void reduce(cudnnReduceTensorOp_t how, GraphTensor x, GraphTensor y);
  void reshape(GraphTensor x, GraphTensor y);

  std::int64_t operations() const { return static_cast<std::int64_t>(operations_.size()); }
  /// With a handle, for its device; without, for whichever is described later.
  std::unique_ptr<Descriptor> finish(cudnnHandle_t handle);

 private:
  GraphTensor tensor(std::int64_t id, cudnnDataType_t type, const Extents& extents,
                     const Extents& strides, bool is_virtual, bool by_value);
  Descriptor& make(cudnnBackendDescriptorType_t type);
  Descriptor& pointwise_mode(cudnnPointwiseMode_t mode, cudnnDataType_t computed_in);
  Descriptor& begin_pointwise(const Descriptor& mode, GraphTensor x, GraphTensor y);
  void add(Descriptor& operation);

  std::vector<std::unique_ptr<Descriptor>> kept_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::int64_t next_id_ = 1000;  ///< of tensors between operations
};

}  // namespace stagecraft::cuda
