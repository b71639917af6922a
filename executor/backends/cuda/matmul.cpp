// cuBLASLt thinks in columns. Row major c = op(a) op(b) is, column by column, c' = op(b)' op(a)',
// and a row-major matrix read by columns is its own transpose: so b comes first, a second, and no
// flag changes.

#include "executor/backends/cuda/matmul.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>

#include "executor/backends/cuda/check.hpp"
#include "executor/backends/cuda/product_choices.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

namespace {

/// What every tensor starts at, but not every part of one.
constexpr std::uint32_t usual_alignment = 16;

cudaDataType_t type_of(Precision precision) {
  return precision == Precision::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % usual_alignment == 0;
}

/// The smallest that a matrix may be promised to have.
std::uint32_t least_alignment(Precision precision) {
  return static_cast<std::uint32_t>(element_bytes(precision));
}

cublasLtEpilogue_t epilogue_of(Fused::Kind kind, bool has_bias) {
  switch (kind) {
    case Fused::Kind::none: return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Fused::Kind::gelu:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Fused::Kind::gelu_input: return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool uses_before(Fused::Kind kind) {
  return kind == Fused::Kind::gelu || kind == Fused::Kind::gelu_input;
}

/// What cuBLASLt asks of the width of `before`.
constexpr std::int64_t auxiliary_columns = 8;

}  // namespace

Operand dense(const void* data, Precision precision, std::int64_t rows, std::int64_t columns,
              bool transposed) {
  return {.data = data,
          .precision = precision,
          .rows = rows,
          .columns = columns,
          .stride = columns,
          .batch_stride = rows * columns,
          .transposed = transposed};
}

/// Descriptors of one product, and the algorithm for it.
struct Matmul::Product {
  Product(const Shape& shape, int multiprocessors) {
    const auto transpose = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    check(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "multiply");
    set(CUBLASLT_MATMUL_DESC_TRANSA, transpose(shape.transpose_b));
    set(CUBLASLT_MATMUL_DESC_TRANSB, transpose(shape.transpose_a));
    if (multiprocessors > 0) {
      set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, std::int32_t{multiprocessors});
    }
    const auto layout = [&](cublasLtMatrixLayout_t& made, Precision precision, std::int64_t rows,
                            std::int64_t columns, bool transposed, std::int64_t stride,
                            std::int64_t batch_stride) {
      if (transposed) std::swap(rows, columns);
      check(
          cublasLtMatrixLayoutCreate(&made, type_of(precision), static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), stride),
          "multiply");
      const auto count = static_cast<std::int32_t>(shape.batch);
      check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                             sizeof count),
            "multiply");
      check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &batch_stride, sizeof batch_stride),
            "multiply");
    };
    layout(a, shape.a, shape.rows, shape.inner, shape.transpose_a, shape.stride_a, shape.batch_a);
    layout(b, shape.b, shape.inner, shape.columns, shape.transpose_b, shape.stride_b,
           shape.batch_b);
    layout(c, shape.c, shape.rows, shape.columns, false, shape.stride_c, shape.batch_c);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(shape.fused, shape.has_bias));
    if (uses_before(shape.fused)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, shape.columns);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    if (c != nullptr) (void)cublasLtMatrixLayoutDestroy(c);
    if (b != nullptr) (void)cublasLtMatrixLayoutDestroy(b);
    if (a != nullptr) (void)cublasLtMatrixLayoutDestroy(a);
    if (description != nullptr) (void)cublasLtMatmulDescDestroy(description);
  }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    check(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), "multiply");
  }

  /// Heuristics look at their alignment, too.
  void set_addresses(const Fused& fused) {
    if (fused.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, fused.bias);
    if (uses_before(fused.kind)) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, fused.before);
  }

  void choose_algorithm(cublasLtHandle_t handle, const Shape& shape) {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "multiply");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
            "multiply");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(most_workspace));
    // Partial sums are added up in a fixed order, or there are none.
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE} | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    const auto promise = [&](cublasLtMatmulPreferenceAttributes_t attribute, Precision precision) {
      prefer(attribute, shape.aligned ? usual_alignment : least_alignment(precision));
    };
    // Its first matrix is our second.
    promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.b);
    promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.a);
    promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.c);
    promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.c);
    const std::optional<ProductAlgorithm> wanted = measured_choice(shape);
    std::array<cublasLtMatmulHeuristicResult_t, most_candidates> found{};
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, description, b, a, c, c, preference,
                                       wanted ? most_candidates : 1, found.data(), &count);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    const auto end = found.begin() + count;
    auto chosen = std::find_if(found.begin(), end, [&](const auto& result) {
      return wanted && result.state == CUBLAS_STATUS_SUCCESS && named(result.algo) == *wanted;
    });
    if (chosen == end) chosen = found.begin();
    is_possible = count > 0 && chosen->state == CUBLAS_STATUS_SUCCESS;
    if (is_possible) {
      algorithm = chosen->algo;
      workspace = static_cast<Bytes>(chosen->workspaceSize);
    } else {
      refusal = cublasLtGetStatusString(status);
    }
  }

  static std::optional<ProductAlgorithm> measured_choice(const Shape& shape) {
    const auto found = std::ranges::find_if(product_choices, [&](const ProductChoice& choice) {
      return choice.rows == shape.rows && choice.columns == shape.columns &&
             choice.inner == shape.inner && choice.transpose_a == shape.transpose_a &&
             choice.transpose_b == shape.transpose_b && choice.fused == shape.fused &&
             shape.batch == 1 && shape.aligned && shape.a == Precision::bfloat16 &&
             shape.c == Precision::bfloat16;
    });
    if (found == product_choices.end()) return {};
    return found->algorithm;
  }

  static ProductAlgorithm named(const cublasLtMatmulAlgo_t& algorithm) {
    ProductAlgorithm name;
    const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto& value) {
      std::size_t written = 0;
      check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof value,
                                                 &written),
            "look at an algorithm");
    };
    get(CUBLASLT_ALGO_CONFIG_ID, name.id);
    get(CUBLASLT_ALGO_CONFIG_TILE_ID, name.tile);
    get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, name.custom);
    get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, name.cluster);
    return name;
  }

  static constexpr int most_candidates = 8;

  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  Bytes workspace = 0;
  bool is_possible = false;
  const char* refusal = "";
};

Matmul::Matmul(std::shared_ptr<Scratch> scratch, int multiprocessors)
    : scratch_(std::move(scratch)), multiprocessors_(multiprocessors) {
  check(cublasLtCreate(&handle_), "start cuBLASLt");
}

Matmul::~Matmul() {
  products_.clear();
  (void)cublasLtDestroy(handle_);
}

Matmul::Shape Matmul::shape_of(const Operand& a, const Operand& b, const Operand& c,
                               bool accumulate, std::int64_t batch) {
  const std::int64_t inner = a.transposed ? a.rows : a.columns;
  assert(inner == (b.transposed ? b.columns : b.rows));
  assert(c.rows == (a.transposed ? a.columns : a.rows));
  assert(c.columns == (b.transposed ? b.rows : b.columns));
  return {.rows = c.rows,
          .columns = c.columns,
          .inner = inner,
          .batch = batch,
          .stride_a = a.stride,
          .stride_b = b.stride,
          .stride_c = c.stride,
          .batch_a = a.batch_stride,
          .batch_b = b.batch_stride,
          .batch_c = c.batch_stride,
          .transpose_a = a.transposed,
          .transpose_b = b.transposed,
          .accumulate = accumulate,
          .aligned = is_aligned(a.data) && is_aligned(b.data) && is_aligned(c.data),
          .a = a.precision,
          .b = b.precision,
          .c = c.precision};
}

Matmul::Product& Matmul::product(const Shape& shape, const Fused& fused) {
  std::unique_ptr<Product>& kept = products_[shape];
  const bool is_new = kept == nullptr;
  if (is_new) kept = std::make_unique<Product>(shape, multiprocessors_);
  kept->set_addresses(fused);
  if (is_new) kept->choose_algorithm(handle_, shape);
  return *kept;
}

/// `added`: to the product; null: nothing. Descriptions are shared by all of their shape, so the
/// addresses in them are set by the call itself.
void Matmul::multiply(Commands& commands, Product& product, const Operand& a, const Operand& b,
                      const Operand& c, const Fused& fused, const void* added) {
  struct Key {
    const Product* product;
    const void *a, *b, *c, *added, *bias, *before;
    void* workspace;
  };
  const std::shared_ptr<void> workspace =
      product.workspace > 0 ? scratch_->allocate(product.workspace) : nullptr;
  const Key key{&product, a.data, b.data, c.data, added, fused.bias, fused.before, workspace.get()};
  commands.add(kind_of<Matmul>(), key, [this, &product, key, fused](cudaStream_t stream) {
    const float one = 1;
    const float beta = key.added != nullptr ? 1 : 0;
    void* out = const_cast<void*>(key.c);
    product.set_addresses(fused);
    check(cublasLtMatmul(handle_, product.description, &one, key.b, product.b, key.a, product.a,
                         &beta, key.added != nullptr ? key.added : out, product.c, out, product.c,
                         &product.algorithm, key.workspace,
                         static_cast<std::size_t>(product.workspace), stream),
          "multiply");
  });
}

void Matmul::run(Commands& commands, const Operand& a, const Operand& b, const Operand& c,
                 bool accumulate, std::int64_t batch) {
  if (c.rows == 0 || c.columns == 0 || batch == 0) return;
  const Shape shape = shape_of(a, b, c, accumulate, batch);
  Product& product = this->product(shape, {});
  if (!product.is_possible) {
    throw Error(
        ErrorKind::execution,
        concat("cuBLASLt has no algorithm for a product of ", shape.rows, "x", shape.inner, " and ",
               shape.inner, "x", shape.columns, " in ", to_string(shape.a), ": ", product.refusal));
  }
  multiply(commands, product, a, b, c, {}, accumulate ? c.data : nullptr);
}

namespace {

/// Numbers that are read at once in bf16, and of which rows should be whole ones.
constexpr std::int64_t at_once = 8;

/// The rows [first, end) of the matrix that a product sees, transposed or not; or its columns.
Operand part_of(const Operand& whole, bool of_rows, std::int64_t first, std::int64_t end) {
  Operand part = whole;
  const bool in_memory_rows = of_rows != whole.transposed;
  const std::int64_t skipped = in_memory_rows ? first * whole.stride : first;
  part.data = static_cast<const std::byte*>(whole.data) + skipped * element_bytes(whole.precision);
  (in_memory_rows ? part.rows : part.columns) = end - first;
  return part;
}

/// Where to cut what lies row by row in memory, if its rows end in between; 0: nowhere.
std::int64_t cut_of(const Operand& matrix) {
  const bool ends_between = matrix.columns > at_once && matrix.columns % at_once != 0;
  const bool is_aligned = matrix.stride % at_once == 0 && matrix.precision == Precision::bfloat16;
  return ends_between && is_aligned ? matrix.columns / at_once * at_once : 0;
}

}  // namespace

/// The last numbers first: where both parts are added up, what is rounded then is small.
void Matmul::run_in_parts(Commands& commands, const Operand& a, const Operand& b, const Operand& c,
                          bool accumulate) {
  if (const std::int64_t cut = cut_of(c); cut > 0) {
    for (const auto& [first, end] : {std::pair{cut, c.columns}, std::pair{std::int64_t{0}, cut}}) {
      run(commands, a, part_of(b, false, first, end), part_of(c, false, first, end), accumulate);
    }
    return;
  }
  const std::int64_t cut = cut_of(a);
  if (cut == 0) return run(commands, a, b, c, accumulate);
  const std::int64_t whole = a.columns;
  for (const auto& [first, end] : {std::pair{cut, whole}, std::pair{std::int64_t{0}, cut}}) {
    if (a.transposed) {
      run(commands, part_of(a, true, first, end), b, part_of(c, true, first, end), accumulate);
    } else {
      const bool adds = accumulate || first == 0;
      run(commands, part_of(a, false, first, end), part_of(b, true, first, end), c, adds);
    }
  }
}

bool Matmul::try_run(Commands& commands, const Operand& a, const Operand& b, const Operand& c,
                     bool accumulate, const Fused& fused) {
  if (c.rows == 0 || c.columns == 0) return false;
  if (uses_before(fused.kind) && c.columns % auxiliary_columns != 0) return false;
  Shape shape = shape_of(a, b, c, accumulate, 1);
  shape.fused = fused.kind;
  shape.has_bias = fused.bias != nullptr;
  shape.has_residual = fused.residual != nullptr;
  for (const void* address : {fused.bias, fused.before, fused.residual}) {
    shape.aligned = shape.aligned && is_aligned(address);
  }
  Product& product = this->product(shape, fused);
  if (!product.is_possible) return false;
  multiply(commands, product, a, b, c, fused, accumulate ? c.data : fused.residual);
  return true;
}

}  // namespace stagecraft::cuda
