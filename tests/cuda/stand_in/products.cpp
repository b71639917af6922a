// The functions of cuBLASLt that the backend calls, for products that are stored column by column,
// with the epilogues that read or write beside the result. Every element is the sum of its terms in
// their order, so what rows a product has does not change a row's bits.

#include <cublasLt.h>

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

using Attributes = std::map<int, std::vector<std::byte>>;

template <class Value>
Value value_of(const Attributes& attributes, int name, Value otherwise) {
  const auto found = attributes.find(name);
  if (found != attributes.end()) std::memcpy(&otherwise, found->second.data(), sizeof otherwise);
  return otherwise;
}

struct Description {
  Attributes attributes;
  template <class Value>
  Value get(cublasLtMatmulDescAttributes_t name, Value otherwise) const {
    return value_of(attributes, name, otherwise);
  }
  bool transposes(cublasLtMatmulDescAttributes_t name) const {
    return get<std::int32_t>(name, CUBLAS_OP_N) != CUBLAS_OP_N;
  }
};

struct Layout {
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, stride = 0;
  Attributes attributes;
  std::int64_t batch() const {
    return value_of<std::int32_t>(attributes, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  }
  std::int64_t batch_stride() const {
    return value_of<std::int64_t>(attributes, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  }
  std::size_t element() const { return type == CUDA_R_16BF ? 2 : 4; }
  std::int64_t last() const {
    return (batch() - 1) * batch_stride() + (columns - 1) * stride + rows;
  }
};

float read(const void* data, cudaDataType type, std::int64_t i) {
  return type == CUDA_R_16BF ? static_cast<float>(static_cast<const Bfloat16*>(data)[i])
                             : static_cast<const float*>(data)[i];
}

void write(void* data, cudaDataType type, std::int64_t i, float value) {
  if (type == CUDA_R_16BF) {
    static_cast<Bfloat16*>(data)[i] = Bfloat16(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

float gelu(float x) {
  return 0.5f * x * (1.0f + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

float gelu_slope(float x) {
  const float t = std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
  return 0.5f * (1.0f + t) +
         0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
}

/// One call, with all that it needs later.
struct Product {
  Description description;
  Layout a, b, c, d;
  const void *a_data, *b_data, *c_data;
  void* d_data;
  float alpha, beta;
  void* workspace;
  std::size_t workspace_bytes;

  void run() const {
    touch(a_data, a);
    touch(b_data, b);
    if (beta != 0.0f) touch(c_data, c);
    touch(d_data, d);
    if (workspace_bytes > 0) {
      require_usable(workspace, workspace_bytes);
      std::memset(workspace, 0xff, workspace_bytes);  // who looks at it finds no numbers
    }
    for (std::int64_t matrix = 0; matrix < d.batch(); ++matrix) multiply(matrix);
    add_bias_gradient();
  }

 private:
  static void touch(const void* data, const Layout& layout) {
    require_usable(data, static_cast<std::size_t>(layout.last()) * layout.element());
  }

  void multiply(std::int64_t matrix) const {
    const bool across_a = description.transposes(CUBLASLT_MATMUL_DESC_TRANSA);
    const bool across_b = description.transposes(CUBLASLT_MATMUL_DESC_TRANSB);
    const std::int64_t inner = across_a ? a.rows : a.columns;
    const std::vector<float> left = gathered(a, a_data, matrix, across_a, inner, d.rows);
    const std::vector<float> right = gathered(b, b_data, matrix, !across_b, inner, d.columns);
    for (std::int64_t column = 0; column < d.columns; ++column) {
      for (std::int64_t row = 0; row < d.rows; ++row) {
        const float* x = left.data() + row * inner;
        const float* y = right.data() + column * inner;
        float sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) sum += x[k] * y[k];
        finish(matrix, row, column, alpha * sum);
      }
    }
  }

  /// [outer, inner], whichever way it lies.
  static std::vector<float> gathered(const Layout& layout, const void* data, std::int64_t matrix,
                                     bool inner_is_rows, std::int64_t inner, std::int64_t outer) {
    std::vector<float> numbers(static_cast<std::size_t>(inner * outer));
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t at = inner_is_rows ? o * layout.stride + i : i * layout.stride + o;
        numbers[static_cast<std::size_t>(o * inner + i)] =
            read(data, layout.type, matrix * layout.batch_stride() + at);
      }
    }
    return numbers;
  }

  bool has(int epilogue_bits) const {
    const auto epilogue =
        description.get<std::int32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
    return (epilogue & epilogue_bits) == epilogue_bits;
  }

  void finish(std::int64_t matrix, std::int64_t row, std::int64_t column, float value) const {
    const std::int64_t at = matrix * d.batch_stride() + column * d.stride + row;
    if (beta != 0.0f) {
      value += beta * read(c_data, c.type, matrix * c.batch_stride() + column * c.stride + row);
    }
    if (has(CUBLASLT_EPILOGUE_BIAS)) {
      const auto* bias = description.get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
      require_usable(bias, static_cast<std::size_t>(d.rows) * d.element());
      value += read(bias, bias_type(), row);
    }
    if (has(CUBLASLT_EPILOGUE_DGELU)) {
      value *= gelu_slope(read(auxiliary(), d.type, auxiliary_place(matrix, row, column)));
    } else if (has(CUBLASLT_EPILOGUE_GELU)) {
      if (has(CUBLASLT_EPILOGUE_GELU_AUX)) {
        write(auxiliary(), d.type, auxiliary_place(matrix, row, column), value);
      }
      value = gelu(value);
    }
    write(d_data, d.type, at, value);
  }

  cudaDataType bias_type() const {
    return static_cast<cudaDataType>(
        description.get<std::int32_t>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, d.type));
  }
  void* auxiliary() const {
    return description.get<void*>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, nullptr);
  }
  std::int64_t auxiliary_place(std::int64_t matrix, std::int64_t row, std::int64_t column) const {
    const auto stride = description.get<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, d.rows);
    const auto batch =
        description.get<std::int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 0);
    return matrix * batch + column * stride + row;
  }

  /// The sums of one operand, over what is added up in the product (BGRADA, BGRADB), or of the
  /// result's columns (DGELU_BGRAD).
  void add_bias_gradient() const {
    auto* sums = description.get<void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
    const bool of_a = has(CUBLASLT_EPILOGUE_BGRADA), of_b = has(CUBLASLT_EPILOGUE_BGRADB);
    const bool of_d = has(CUBLASLT_EPILOGUE_DGELU_BGRAD);
    if (!of_a && !of_b && !of_d) return;
    const std::int64_t count = of_b ? d.columns : d.rows;
    require_usable(sums, static_cast<std::size_t>(count) * (bias_type() == CUDA_R_16BF ? 2 : 4));
    for (std::int64_t i = 0; i < count; ++i) write(sums, bias_type(), i, bias_sum(i, of_a, of_b));
  }

  float bias_sum(std::int64_t i, bool of_a, bool of_b) const {
    const bool across_a = description.transposes(CUBLASLT_MATMUL_DESC_TRANSA);
    const bool across_b = description.transposes(CUBLASLT_MATMUL_DESC_TRANSB);
    const std::int64_t inner = across_a ? a.rows : a.columns;
    float sum = 0;
    if (of_a) {
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += read(a_data, a.type, across_a ? i * a.stride + k : k * a.stride + i);
      }
    } else if (of_b) {
      for (std::int64_t k = 0; k < inner; ++k) {
        sum += read(b_data, b.type, across_b ? k * b.stride + i : i * b.stride + k);
      }
    } else {
      for (std::int64_t k = 0; k < d.columns; ++k) sum += read(d_data, d.type, k * d.stride + i);
    }
    return sum;
  }
};

/// What an algorithm was looked up for, kept in the algorithm itself.
struct Fingerprint {
  std::int64_t rows, columns, inner, batch;
  bool operator==(const Fingerprint&) const = default;
};

Fingerprint fingerprint_of(const Description& description, const Layout& a, const Layout& d) {
  const bool across = description.transposes(CUBLASLT_MATMUL_DESC_TRANSA);
  return {d.rows, d.columns, across ? a.rows : a.columns, d.batch()};
}

/// Deep products are split, and the parts' sums wait for each other in fp32.
std::size_t workspace_of(const Fingerprint& product) {
  if (product.inner <= product.rows) return 0;
  return static_cast<std::size_t>(product.rows * product.columns * product.batch) * sizeof(float);
}

template <class Own, class Handle>
Own& own(Handle handle) {
  return *reinterpret_cast<Own*>(handle);
}

void set(Attributes& attributes, int name, const void* value, std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(value);
  attributes[name].assign(first, first + bytes);
}

struct ProductHandle {
  int device = 0;
};

}  // namespace

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}

std::size_t cublasLtGetVersion() {
  return 130100;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* made) {
  auto* handle = new ProductHandle;
  cudaGetDevice(&handle->device);
  *made = reinterpret_cast<cublasLtHandle_t>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete &own<ProductHandle>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t,
                                        cudaDataType_t) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &own<Description>(description);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, std::size_t bytes) {
  set(own<Description>(description).attributes, name, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t stride) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{.type = type,
                 .rows = static_cast<std::int64_t>(rows),
                 .columns = static_cast<std::int64_t>(columns),
                 .stride = stride,
                 .attributes = {}});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &own<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, std::size_t bytes) {
  set(own<Layout>(layout).attributes, name, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete &own<Attributes>(preference);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, std::size_t bytes) {
  set(own<Attributes>(preference), name, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int asked,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  *found = 0;
  if (asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const Fingerprint made =
      fingerprint_of(own<Description>(description), own<Layout>(a), own<Layout>(d));
  static_assert(sizeof made <= sizeof results->algo);
  *results = {};
  std::memcpy(&results->algo, &made, sizeof made);
  results->workspaceSize = workspace_of(made);
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

/// It has one for each product, which has no name.
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t*,
                                                    cublasLtMatmulAlgoConfigAttributes_t,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* written) {
  std::memset(value, 0, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a_data, cublasLtMatrixLayout_t a,
                              const void* b_data, cublasLtMatrixLayout_t b, const void* beta,
                              const void* c_data, cublasLtMatrixLayout_t c, void* d_data,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t* algorithm,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (own<ProductHandle>(handle).device != device_of(stream)) {
    complain("cublasLtMatmul", "is asked for on another device than its handle's");
  }
  Fingerprint looked_up{};
  std::memcpy(&looked_up, algorithm, sizeof looked_up);
  const auto& how = own<Description>(description);
  if (!(looked_up == fingerprint_of(how, own<Layout>(a), own<Layout>(d)))) {
    complain("cublasLtMatmul", "is given the algorithm of another product");
  }
  if (workspace_bytes < workspace_of(looked_up)) {
    complain("cublasLtMatmul",
             concat("needs ", workspace_of(looked_up), " bytes, and is given ", workspace_bytes));
  }
  if (reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0) {
    complain("cublasLtMatmul", "is given a workspace at an address that 256 does not divide");
  }
  const auto target = how.get<std::int32_t>(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 0);
  if (target > multiprocessors_of(stream)) {
    complain("cublasLtMatmul", concat("is made for ", target, " multiprocessors, and has ",
                                      multiprocessors_of(stream)));
  }
  const Product product{.description = how,
                        .a = own<Layout>(a),
                        .b = own<Layout>(b),
                        .c = own<Layout>(c),
                        .d = own<Layout>(d),
                        .a_data = a_data,
                        .b_data = b_data,
                        .c_data = c_data,
                        .d_data = d_data,
                        .alpha = *static_cast<const float*>(alpha),
                        .beta = *static_cast<const float*>(beta),
                        .workspace = workspace,
                        .workspace_bytes = workspace_of(looked_up)};
  const double terms = static_cast<double>(product.d.rows) *
                       static_cast<double>(product.d.columns) *
                       static_cast<double>(looked_up.inner * looked_up.batch);
  enqueue(stream, "cublasLtMatmul", [product] { product.run(); }, {1000 + terms / 100});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
