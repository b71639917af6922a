#include "executor/backends/cuda/graph.hpp"

#include "executor/backends/cuda/check.hpp"

namespace stagecraft::cuda {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &descriptor_), "make a cuDNN descriptor");
}

Descriptor::~Descriptor() {
  (void)cudnnBackendDestroyDescriptor(descriptor_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  check(cudnnBackendSetAttribute(descriptor_, name, type, count, values), "describe to cuDNN");
}

void Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}

void Descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  const cudnnBackendDescriptor_t raw = value.get();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
}

void Descriptor::finalize() {
  check(cudnnBackendFinalize(descriptor_), "finish a cuDNN descriptor");
}

Descriptor& GraphBuilder::make(cudnnBackendDescriptorType_t type) {
  return *kept_.emplace_back(std::make_unique<Descriptor>(type));
}

GraphTensor GraphBuilder::tensor(std::int64_t id, cudnnDataType_t type, const Extents& extents,
                                 const Extents& strides, bool is_virtual, bool by_value) {
  Descriptor& made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
  made.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual);
  made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  made.finalize();
  return {&made};
}

GraphTensor GraphBuilder::stored(std::int64_t id, cudnnDataType_t type, const Extents& extents,
                                 const Extents& strides) {
  return tensor(id, type, extents, strides, false, false);
}

GraphTensor GraphBuilder::number(std::int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true);
}

GraphTensor GraphBuilder::between(cudnnDataType_t type, const Extents& extents,
                                  const Extents& strides) {
  return tensor(next_id_++, type, extents, strides, true, false);
}

void GraphBuilder::add(Descriptor& operation) {
  operation.finalize();
  operations_.push_back(operation.get());
}

void GraphBuilder::matmul(GraphTensor a, GraphTensor b, GraphTensor c) {
  Descriptor& how = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finalize();
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.descriptor);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.descriptor);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *c.descriptor);
  made.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  add(made);
}

Descriptor& GraphBuilder::pointwise_mode(cudnnPointwiseMode_t mode, cudnnDataType_t computed_in) {
  Descriptor& how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, computed_in);
  return how;
}

Descriptor& GraphBuilder::begin_pointwise(const Descriptor& mode, GraphTensor x, GraphTensor y) {
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, mode);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x.descriptor);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *y.descriptor);
  return made;
}

void GraphBuilder::pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor y) {
  Descriptor& how = pointwise_mode(mode, CUDNN_DATA_FLOAT);
  how.finalize();
  add(begin_pointwise(how, x, y));
}

void GraphBuilder::pointwise(cudnnPointwiseMode_t mode, GraphTensor x, GraphTensor b, GraphTensor y,
                             cudnnDataType_t computed_in) {
  Descriptor& how = pointwise_mode(mode, computed_in);
  how.finalize();
  Descriptor& made = begin_pointwise(how, x, y);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b.descriptor);
  add(made);
}

void GraphBuilder::select(GraphTensor x, GraphTensor otherwise, GraphTensor which, GraphTensor y) {
  Descriptor& how = pointwise_mode(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
  how.finalize();
  Descriptor& made = begin_pointwise(how, x, y);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *otherwise.descriptor);
  made.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *which.descriptor);
  add(made);
}

void GraphBuilder::index(GraphTensor like, std::int64_t axis, GraphTensor y) {
  Descriptor& how = pointwise_mode(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32);
  how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  how.finalize();
  add(begin_pointwise(how, like, y));
}

void GraphBuilder::reduce(cudnnReduceTensorOp_t how, GraphTensor x, GraphTensor y) {
  Descriptor& reduction = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
  reduction.finalize();
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor);
  made.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *y.descriptor);
  add(made);
}

void GraphBuilder::reshape(GraphTensor x, GraphTensor y) {
  Descriptor& made = make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.descriptor);
  made.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *y.descriptor);
  add(made);
}

std::unique_ptr<Descriptor> GraphBuilder::finish(cudnnHandle_t handle) {
  auto graph = std::make_unique<Descriptor>(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph->set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations(),
             operations_.data());
  if (handle != nullptr) {
    graph->set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  }
  graph->finalize();
  return graph;
}

}  // namespace stagecraft::cuda
