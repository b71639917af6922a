// Convolutions as matrix products, image by image and band by band: the patches under the kernel,
// one column for each number of the output, are copied out of the image (im2col).
//
//                     columns of a band of output rows
//                    ┌──────────┐
//   one row for each │ patches  │         y[channels, band]  = weight patches
//   number under the │          │         dweight           += dy[channels, band] patchesᵀ
//   kernel           └──────────┘         patches            = weightᵀ dy[channels, band], added to
//   dx
//
// A band keeps the patches of large images in the cache.

#include <algorithm>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

namespace {

// Columns of a band; enough to feed a matrix product.
constexpr std::int64_t band_columns = 512;

std::int64_t band_rows(const ConvolutionShape& shape) {
  return std::clamp<std::int64_t>(band_columns / shape.size, 1, shape.size);
}

std::int64_t patch(const ConvolutionShape& shape) {
  return shape.input_channels * shape.kernel * shape.kernel;
}

// Output rows [first, end) of one image.
struct Band {
  std::int64_t image = 0, first = 0, end = 0;
};

template <class Visit>
void for_each_band(const ConvolutionShape& shape, Visit visit) {
  for (std::int64_t image = 0; image < shape.samples; ++image) {
    for (std::int64_t first = 0; first < shape.size; first += band_rows(shape)) {
      visit(Band{image, first, std::min(first + band_rows(shape), shape.size)});
    }
  }
}

// For each number under the kernel and each output row of the band, calls move(where its patches
// begin, where the image's numbers begin, how many, zeros before, zeros after); rows outside of the
// image have none.
template <class Move>
void for_each_patch_row(const ConvolutionShape& shape, const Band& band, Move move) {
  const std::int64_t size = shape.size;
  const std::int64_t margin = shape.kernel / 2;
  std::int64_t at = 0;
  for (std::int64_t channel = 0; channel < shape.input_channels; ++channel) {
    for (std::int64_t down = -margin; down <= margin; ++down) {
      for (std::int64_t right = -margin; right <= margin; ++right) {
        const std::int64_t before = std::min(size, std::max<std::int64_t>(0, -right));
        const std::int64_t after = std::min(size - before, std::max<std::int64_t>(0, right));
        for (std::int64_t row = band.first; row < band.end; ++row, at += size) {
          const std::int64_t from = row + down;
          const bool inside = 0 <= from && from < size;
          const std::int64_t count = inside ? size - before - after : 0;
          const std::int64_t start = (channel * size + from) * size + before + right;
          move(at, start, count, inside ? before : size, inside ? after : 0);
        }
      }
    }
  }
}

template <class T>
void copy_patches(const T* image, const ConvolutionShape& shape, const Band& band, T* patches) {
  for_each_patch_row(shape, band,
                     [&](std::int64_t to, std::int64_t from, std::int64_t count,
                         std::int64_t before, std::int64_t after) {
                       T* out = std::fill_n(patches + to, before, T(0));
                       if (count > 0) out = std::copy_n(image + from, count, out);
                       std::fill_n(out, after, T(0));
                     });
}

template <class T>
void add_patches(const T* patches, const ConvolutionShape& shape, const Band& band, T* image) {
  for_each_patch_row(shape, band,
                     [&](std::int64_t from, std::int64_t to, std::int64_t count,
                         std::int64_t before, std::int64_t) {
                       if (count > 0) add(patches + from + before, image + to, count);
                     });
}

// A band of all channels of an image.
template <class T>
T* band_of(T* images, std::int64_t channels, const ConvolutionShape& shape, const Band& band) {
  return images + (band.image * channels * shape.size + band.first) * shape.size;
}

template <class T>
T* image_of(T* images, const ConvolutionShape& shape, const Band& band) {
  return images + band.image * shape.input_channels * shape.size * shape.size;
}

}  // namespace

std::int64_t convolution_workspace(const ConvolutionShape& shape) {
  return patch(shape) * band_rows(shape) * shape.size;
}

template <class T>
void convolution(const T* x, const T* weight, const T* bias, const ConvolutionShape& shape, T* y,
                 T* workspace) {
  const std::int64_t plane = shape.size * shape.size;
  for (std::int64_t i = 0; i < shape.samples * shape.output_channels; ++i) {
    std::fill_n(y + i * plane, plane, bias[i % shape.output_channels]);
  }
  for_each_band(shape, [&](const Band& band) {
    const std::int64_t columns = (band.end - band.first) * shape.size;
    copy_patches(image_of(x, shape, band), shape, band, workspace);
    multiply(1, Factor<T>{weight, patch(shape)}, Factor<T>{workspace, columns}, patch(shape), 1,
             Product<T>{band_of(y, shape.output_channels, shape, band), plane,
                        shape.output_channels, columns});
  });
}

template <class T>
void convolution_input(const T* dy, const T* weight, const ConvolutionShape& shape, T* dx,
                       T* workspace) {
  const std::int64_t plane = shape.size * shape.size;
  std::fill_n(dx, shape.samples * shape.input_channels * plane, T(0));
  for_each_band(shape, [&](const Band& band) {
    const std::int64_t columns = (band.end - band.first) * shape.size;
    multiply(1, Factor<T>{weight, patch(shape), true},
             Factor<T>{band_of(dy, shape.output_channels, shape, band), plane},
             shape.output_channels, 0, Product<T>{workspace, columns, patch(shape), columns});
    add_patches(workspace, shape, band, image_of(dx, shape, band));
  });
}

template <class T>
STAGECRAFT_VECTORISED void add_planes(const T* dy, const ConvolutionShape& shape, T* dbias) {
  const std::int64_t plane = shape.size * shape.size;
  for (std::int64_t i = 0; i < shape.samples * shape.output_channels; ++i) {
    const T* values = dy + i * plane;
    dbias[i % shape.output_channels] +=
        ordered_sum<T>(plane, [&](std::int64_t at) { return values[at]; });
  }
}

template <class T>
void convolution_weight(const T* dy, const T* x, const ConvolutionShape& shape, T* dweight,
                        T* dbias, T* workspace) {
  const std::int64_t plane = shape.size * shape.size;
  add_planes(dy, shape, dbias);
  for_each_band(shape, [&](const Band& band) {
    const std::int64_t columns = (band.end - band.first) * shape.size;
    copy_patches(image_of(x, shape, band), shape, band, workspace);
    multiply(1, Factor<T>{band_of(dy, shape.output_channels, shape, band), plane},
             Factor<T>{workspace, columns, true}, columns, 1,
             Product<T>{dweight, patch(shape), shape.output_channels, patch(shape)});
  });
}

#define STAGECRAFT_INSTANTIATE(T)                                                           \
  template void convolution(const T*, const T*, const T*, const ConvolutionShape&, T*, T*); \
  template void convolution_input(const T*, const T*, const ConvolutionShape&, T*, T*);     \
  template void convolution_weight(const T*, const T*, const ConvolutionShape&, T*, T*, T*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
