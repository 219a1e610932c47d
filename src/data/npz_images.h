#pragma once
// The array of images of a .npz file: where the elements of a sample lie, and that their values are
// what a data set may hold.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "data/npy_array.h"
#include "temper/data/image.h"

namespace temper {

enum class NpzElement { kUInt8, kFloat32, kFloat64 };

struct NpzLayout {
  NpzElement element = NpzElement::kUInt8;
  std::size_t samples = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
  // Elements between neighbours along each axis.
  std::size_t sample_stride = 0;
  std::size_t row_stride = 0;
  std::size_t column_stride = 0;
  std::size_t channel_stride = 0;

  [[nodiscard]] std::size_t item_size() const;
  // Of one sample, in elements.
  [[nodiscard]] std::size_t element_count() const;
  // The bytes of a sample lie together, apart from those of others; false for Fortran order.
  [[nodiscard]] bool is_sample_major() const { return sample_stride >= element_count(); }
  // Elements lie as rows of pixels with interleaved channels.
  [[nodiscard]] bool is_interleaved() const;
  [[nodiscard]] ElementType element_type() const {
    return element == NpzElement::kUInt8 ? ElementType::kUInt8 : ElementType::kFloat32;
  }
};

// "uint8"
[[nodiscard]] std::string_view element_name(NpzElement element);

// Throws ConfigError for an element type or shape that is no set of images.
[[nodiscard]] NpzLayout npz_layout(const NpyHeader& header, const std::string& name);

// One sample as interleaved rows of bytes or floats. `first` is its first element.
void gather_sample(const NpzLayout& layout, const std::uint8_t* first, std::span<std::uint8_t> out);

// Checks elements that lie one after another, from the element `begin` of the whole array on:
// floats must lie in [0, 1]. Throws ConfigError that names the sample.
void check_elements(const NpzLayout& layout, std::uint64_t begin,
                    std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace temper
