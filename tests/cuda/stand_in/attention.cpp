// The functions of cuDNN's graph backend that the backend calls. A graph is carried out operation
// by operation, as its descriptors say, so that a graph that is described wrongly computes wrongly.
//
// Where extents differ, those of the smaller tensor stand for as many neighbours each: 1 for all,
// or a head of keys for the queries' heads that share it.

#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "executor/values/bfloat16.hpp"
#include "profiles/error.hpp"
#include "tests/cuda/stand_in/streams.hpp"

using namespace stagecraft;
using namespace stagecraft::stand_in;

namespace {

using Extents = std::array<std::int64_t, 4>;

struct Descriptor {
  cudnnBackendDescriptorType_t type{};
  std::map<int, std::vector<std::byte>> attributes;
  std::map<int, std::vector<const Descriptor*>> links;
  bool is_final = false;

  template <class Value>
  Value get(int name, Value otherwise = {}) const {
    const auto found = attributes.find(name);
    if (found != attributes.end()) {
      std::memcpy(&otherwise, found->second.data(),
                  std::min(sizeof otherwise, found->second.size()));
    }
    return otherwise;
  }
  const Descriptor* link(int name) const {
    const auto found = links.find(name);
    return found == links.end() || found->second.empty() ? nullptr : found->second.front();
  }
};

// --- A graph, free of its descriptors ------------------------------------------------------------

struct GraphTensor {
  std::int64_t id = 0;
  cudnnDataType_t type{};
  Extents extents{}, strides{};
  bool is_virtual = false, is_number = false;

  std::int64_t elements() const { return extents[0] * extents[1] * extents[2] * extents[3]; }
  std::int64_t place(const Extents& at) const {
    return at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2] + at[3] * strides[3];
  }
  std::int64_t number_of(const Extents& at) const {
    return ((at[0] * extents[1] + at[1]) * extents[2] + at[2]) * extents[3] + at[3];
  }
  Extents at(std::int64_t i) const {
    Extents place{};
    for (std::size_t axis = 4; axis-- > 0; i /= extents[axis]) place[axis] = i % extents[axis];
    return place;
  }
};

GraphTensor tensor_of(const Descriptor* descriptor) {
  GraphTensor tensor;
  if (descriptor == nullptr) return tensor;
  tensor.id = descriptor->get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor.type = descriptor->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor.extents = descriptor->get<Extents>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = descriptor->get<Extents>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.is_virtual = descriptor->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  tensor.is_number = descriptor->get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  return tensor;
}

struct GraphOperation {
  cudnnBackendDescriptorType_t kind{};
  int mode = 0;
  std::int64_t axis = 0;
  GraphTensor x, b, t, y;
};

GraphOperation operation_of(const Descriptor& from) {
  GraphOperation operation{.kind = from.type};
  const auto take = [&](int x, int b, int t, int y) {
    operation.x = tensor_of(from.link(x));
    operation.b = tensor_of(from.link(b));
    operation.t = tensor_of(from.link(t));
    operation.y = tensor_of(from.link(y));
  };
  switch (from.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      take(CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, -1,
           CUDNN_ATTR_OPERATION_MATMUL_CDESC);
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
      take(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
           CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      const Descriptor* how = from.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
      operation.mode = how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
      operation.axis = how->get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS);
      break;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      take(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, -1, -1, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
      operation.mode = from.link(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                           ->get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
      break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      take(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, -1, -1, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
      break;
    default: complain("cudnnBackendFinalize", "of a graph with an operation of another kind");
  }
  return operation;
}

using Operations = std::vector<GraphOperation>;

/// One execution: what is in memory, and what is between operations.
class Execution {
 public:
  std::map<std::int64_t, const void*> addresses;
  std::map<std::int64_t, float> numbers;

  void run(const Operations& operations) {
    for (const GraphOperation& operation : operations) {
      switch (operation.kind) {
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: multiply(operation); break;
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: reduce(operation); break;
        case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: reshape(operation); break;
        default: pointwise(operation);
      }
    }
  }

 private:
  using Numbers = std::vector<float>;

  static Extents matched(const Extents& at, const GraphTensor& of, const GraphTensor& to) {
    Extents place{};
    for (std::size_t axis = 0; axis < 4; ++axis) {
      place[axis] = at[axis] * to.extents[axis] / of.extents[axis];
    }
    return place;
  }

  /// Of every element, in order.
  Numbers read(const GraphTensor& tensor) {
    if (tensor.is_number) return {numbers.at(tensor.id)};
    if (tensor.is_virtual) return between_.at(tensor.id);
    Numbers all(static_cast<std::size_t>(tensor.elements()));
    const void* data = addresses.at(tensor.id);
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::int64_t place = tensor.place(tensor.at(i));
      all[static_cast<std::size_t>(i)] =
          tensor.type == CUDNN_DATA_BFLOAT16
              ? static_cast<float>(static_cast<const Bfloat16*>(data)[place])
              : static_cast<const float*>(data)[place];
    }
    return all;
  }

  void write(const GraphTensor& tensor, Numbers all) {
    if (tensor.type == CUDNN_DATA_BFLOAT16) {
      for (float& number : all) number = static_cast<float>(Bfloat16(number));
    }
    if (tensor.is_virtual) {
      between_[tensor.id] = std::move(all);
      return;
    }
    void* data = const_cast<void*>(addresses.at(tensor.id));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::int64_t place = tensor.place(tensor.at(i));
      const float number = all[static_cast<std::size_t>(i)];
      require_usable(static_cast<const std::byte*>(data) + place * 2, 2);
      if (tensor.type == CUDNN_DATA_BFLOAT16) {
        static_cast<Bfloat16*>(data)[place] = Bfloat16(number);
      } else {
        static_cast<float*>(data)[place] = number;
      }
    }
  }

  static float at(const Numbers& all, const GraphTensor& tensor, const Extents& place) {
    return all[static_cast<std::size_t>(tensor.number_of(place))];
  }

  void multiply(const GraphOperation& op) {
    const Numbers a = read(op.x), b = read(op.b);
    Numbers c(static_cast<std::size_t>(op.y.elements()));
    for (std::int64_t i = 0; i < op.y.elements(); ++i) {
      const Extents place = op.y.at(i);
      const std::int64_t head_a = place[1] * op.x.extents[1] / op.y.extents[1];
      const std::int64_t head_b = place[1] * op.b.extents[1] / op.y.extents[1];
      float sum = 0;
      for (std::int64_t k = 0; k < op.x.extents[3]; ++k) {
        sum += at(a, op.x, {place[0], head_a, place[2], k}) *
               at(b, op.b, {place[0], head_b, k, place[3]});
      }
      c[static_cast<std::size_t>(i)] = sum;
    }
    write(op.y, std::move(c));
  }

  void reduce(const GraphOperation& op) {
    const Numbers x = read(op.x);
    const bool adds = op.mode == CUDNN_REDUCE_TENSOR_ADD;
    Numbers y(static_cast<std::size_t>(op.y.elements()), adds ? 0.0f : -INFINITY);
    for (std::int64_t i = 0; i < op.x.elements(); ++i) {
      float& into = y[static_cast<std::size_t>(op.y.number_of(matched(op.x.at(i), op.x, op.y)))];
      const float number = x[static_cast<std::size_t>(i)];
      into = adds ? into + number : std::max(into, number);
    }
    write(op.y, std::move(y));
  }

  /// The same addresses under other extents and strides.
  void reshape(const GraphOperation& op) {
    const Numbers x = read(op.x);
    std::map<std::int64_t, float> memory;
    for (std::int64_t i = 0; i < op.x.elements(); ++i) {
      memory[op.x.place(op.x.at(i))] = x[static_cast<std::size_t>(i)];
    }
    Numbers y(static_cast<std::size_t>(op.y.elements()));
    for (std::int64_t i = 0; i < op.y.elements(); ++i) {
      y[static_cast<std::size_t>(i)] = memory.at(op.y.place(op.y.at(i)));
    }
    write(op.y, std::move(y));
  }

  void pointwise(const GraphOperation& op) {
    const bool is_index = op.mode == CUDNN_POINTWISE_GEN_INDEX;
    const Numbers x = is_index ? Numbers{} : read(op.x);
    const bool has_b = op.b.elements() > 0, has_t = op.t.elements() > 0;
    const Numbers b = has_b ? read(op.b) : Numbers{}, t = has_t ? read(op.t) : Numbers{};
    Numbers y(static_cast<std::size_t>(op.y.elements()));
    for (std::int64_t i = 0; i < op.y.elements(); ++i) {
      const Extents place = op.y.at(i);
      const auto of = [&](const Numbers& all, const GraphTensor& tensor) {
        return at(all, tensor, matched(place, op.y, tensor));
      };
      y[static_cast<std::size_t>(i)] =
          is_index ? static_cast<float>(place[static_cast<std::size_t>(op.axis)])
                   : result(op.mode, of(x, op.x), has_b ? of(b, op.b) : 0, has_t ? of(t, op.t) : 0);
    }
    write(op.y, std::move(y));
  }

  static float result(int mode, float x, float b, float t) {
    switch (mode) {
      case CUDNN_POINTWISE_ADD: return x + b;
      case CUDNN_POINTWISE_SUB: return x - b;
      case CUDNN_POINTWISE_MUL: return x * b;
      case CUDNN_POINTWISE_DIV: return x / b;
      case CUDNN_POINTWISE_EXP: return std::exp(x);
      case CUDNN_POINTWISE_LOG: return std::log(x);
      case CUDNN_POINTWISE_IDENTITY: return x;
      case CUDNN_POINTWISE_CMP_GE: return x >= b ? 1.0f : 0.0f;
      case CUDNN_POINTWISE_BINARY_SELECT: return t != 0.0f ? x : b;
      default: complain("cudnnBackendExecute", "of a pointwise operation of another kind");
    }
    return 0;
  }

  std::map<std::int64_t, Numbers> between_;
};

struct AttentionHandle {
  cudaStream_t stream = nullptr;
};

Descriptor& own(cudnnBackendDescriptor_t descriptor) {
  return *static_cast<Descriptor*>(descriptor);
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4;
  }
}

/// Kept by a plan from when it is finished.
std::map<const Descriptor*, std::shared_ptr<const Operations>>& plans() {
  static std::map<const Descriptor*, std::shared_ptr<const Operations>> all;
  return all;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  return 91900;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS ? "success" : "failure";
}

void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (size > 0) *message = 0;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* made) {
  *made = reinterpret_cast<cudnnHandle_t>(new AttentionHandle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<AttentionHandle*>(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  reinterpret_cast<AttentionHandle*>(handle)->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  *made = new Descriptor{.type = type, .attributes = {}, .links = {}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  plans().erase(&own(descriptor));
  delete &own(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  Descriptor& into = own(descriptor);
  if (into.is_final) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    const auto* all = static_cast<const cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < count; ++i) into.links[name].push_back(&own(all[i]));
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* first = static_cast<const std::byte*>(values);
  into.attributes[name].assign(first, first + static_cast<std::size_t>(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& made = own(descriptor);
  made.is_final = true;
  if (made.type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_SUCCESS;
  const Descriptor* heuristics = made.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
                                     ->link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  auto operations = std::make_shared<Operations>();
  for (const Descriptor* each : heuristics->links.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
    operations->push_back(operation_of(*each));
  }
  plans()[&made] = std::move(operations);
  return CUDNN_STATUS_SUCCESS;
}

/// There is one engine; its configuration links to the graph.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t asked,
                                       std::int64_t* count, void* values) {
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = 1;
    if (asked == 0) return CUDNN_STATUS_SUCCESS;
    own(*static_cast<cudnnBackendDescriptor_t*>(values)).links = own(descriptor).links;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    const std::int64_t bytes = 1024;
    std::memcpy(values, &bytes, sizeof bytes);
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const auto operations = plans().at(&own(plan));
  const auto& given = own(pack).attributes;
  const auto& ids = given.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto& pointers = given.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<std::int64_t, const void*> addresses;
  for (std::size_t i = 0; i < ids.size() / 8; ++i) {
    std::int64_t id = 0;
    std::memcpy(&id, ids.data() + 8 * i, 8);
    std::memcpy(&addresses[id], pointers.data() + 8 * i, 8);
  }
  // Numbers are read now: they are the process's.
  std::map<std::int64_t, float> numbers;
  double elements = 0;
  for (const GraphOperation& operation : *operations) {
    for (const GraphTensor* tensor : {&operation.x, &operation.b, &operation.t}) {
      if (tensor->is_number) {
        numbers[tensor->id] = *static_cast<const float*>(addresses.at(tensor->id));
      }
    }
    elements += static_cast<double>(operation.y.elements());
  }
  enqueue(reinterpret_cast<AttentionHandle*>(handle)->stream, "cudnnBackendExecute",
          [operations, addresses, numbers] {
            for (const auto& [id, address] : addresses) {
              if (!numbers.contains(id)) require_usable(address, 2);
            }
            Execution execution;
            execution.addresses = addresses;
            execution.numbers = numbers;
            execution.run(*operations);
          },
          {1000 + elements / 10});
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
