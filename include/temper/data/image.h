#pragma once
// One decoded image: rows from top to bottom, each pixel with its channels side by side (HWC).
// Either bytes 0 ... 255 or floats in [0, 1].

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

namespace temper {

enum class ElementType : std::uint8_t { kUInt8, kFloat32 };

[[nodiscard]] constexpr std::size_t element_size(ElementType type) {
  return type == ElementType::kUInt8 ? 1 : sizeof(float);
}

struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  // height * width * channels elements.
  std::variant<std::vector<std::uint8_t>, std::vector<float>> pixels;

  [[nodiscard]] ElementType element_type() const {
    return pixels.index() == 0 ? ElementType::kUInt8 : ElementType::kFloat32;
  }
  [[nodiscard]] std::size_t element_count() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
           static_cast<std::size_t>(channels);
  }
  // The pixels; throw std::bad_variant_access for the other element type.
  [[nodiscard]] const std::vector<std::uint8_t>& bytes() const {
    return std::get<std::vector<std::uint8_t>>(pixels);
  }
  [[nodiscard]] const std::vector<float>& floats() const {
    return std::get<std::vector<float>>(pixels);
  }
  friend bool operator==(const Image&, const Image&) = default;
};

// An image in memory of somebody else, rows without gaps. Floats are aligned.
struct ImageView {
  int height = 0;
  int width = 0;
  int channels = 0;
  ElementType element_type = ElementType::kUInt8;
  std::span<const std::uint8_t> bytes;  // height * width * channels elements
};

[[nodiscard]] inline ImageView view_of(const Image& image) {
  const auto bytes = std::visit(
      [](const auto& pixels) {
        return std::span(reinterpret_cast<const std::uint8_t*>(pixels.data()),
                         std::span(pixels).size_bytes());
      },
      image.pixels);
  return {image.height, image.width, image.channels, image.element_type(), bytes};
}

}  // namespace temper
