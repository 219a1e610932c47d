#pragma once
// Pillow's colour operations on 8-bit images, in place and with its pixels. Gray images take them
// as Pillow's mode L does, so that saturation and hue leave them as they are.

#include <array>
#include <cstdint>
#include <span>

namespace temper {

// An image whose pixels change in place: rows without gaps, 1 or 3 channels.
struct Pixels {
  std::span<std::uint8_t> bytes;  // height * width * channels
  int height = 0;
  int width = 0;
  int channels = 0;
};

// ImageEnhance: `factor` 0 gives black, mean gray, gray or smooth pixels, 1 the image, more of it
// beyond.
void adjust_brightness(const Pixels& pixels, double factor);
void adjust_contrast(const Pixels& pixels, double factor);
void adjust_saturation(const Pixels& pixels, double factor);
void adjust_sharpness(const Pixels& pixels, double factor);

// torchvision's adjust_hue; `shift` from -0.5 to 0.5 of a turn.
void adjust_hue(const Pixels& pixels, double shift);

// ImageOps. `bits`: 1 to 8.
void posterize(const Pixels& pixels, int bits);
void solarize(const Pixels& pixels, double threshold);
void auto_contrast(const Pixels& pixels);
void equalize(const Pixels& pixels);

// All channels become the luma.
void make_gray(const Pixels& pixels);

// Nearest neighbour: pixel (x, y) comes from (m0 x + m1 y + m2, m3 x + m4 y + m5), and is `fill`
// where that lies outside.
void transform_affine(const Pixels& pixels, const std::array<double, 6>& matrix, std::uint8_t fill);

// Counter-clockwise about the center, nearest neighbour; `degrees` of any size.
void rotate(const Pixels& pixels, double degrees, std::uint8_t fill);

}  // namespace temper
