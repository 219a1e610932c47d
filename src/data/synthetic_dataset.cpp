#include <algorithm>
#include <charconv>
#include <string_view>

#include "data/codec.h"
#include "data/fingerprint.h"
#include "data/formats.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::size_t kCells = 4;  // a class is a pattern of kCells x kCells cells
constexpr std::uint64_t kMaxSamples = UINT32_MAX;

struct SyntheticShape {
  std::uint64_t samples = 0;
  std::uint64_t height = 32;
  std::uint64_t width = 32;
  std::uint64_t channels = 3;
  std::uint64_t classes = 10;
  std::uint64_t seed = 0;
};

// SplitMix64: a bijection that leaves no visible order.
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9U;
  value = (value ^ value >> 27) * 0x94d049bb133111ebU;
  return value ^ value >> 31;
}
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;

class ShapeParser {
 public:
  explicit ShapeParser(const std::string& text) : text_(text) {}

  SyntheticShape parse(SyntheticShape shape) const {
    for (const std::string& item : split(text_, ',')) {
      const std::size_t equals = item.find('=');
      if (equals == std::string::npos) {
        fail(concat("'", item, "' is not name=number"));
      }
      const std::string name(trim(std::string_view(item).substr(0, equals)));
      const std::string_view value = trim(std::string_view(item).substr(equals + 1));
      set(shape, name, value);
    }
    if (shape.samples == 0) {
      fail("the number of samples is missing");
    }
    if (shape.channels != 1 && shape.channels != 3) {
      fail("channels are 1 or 3");
    }
    if (shape.width > kMaxImagePixels / shape.height) {
      fail("the images are too large");
    }
    return shape;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw ConfigError(
        concat("synthetic data '", text_, "': ", what,
               "; expected e.g. samples=1000,size=32x32,channels=3,classes=10,seed=0, "
               "of which all but samples may be left out"));
  }

  std::uint64_t number(const std::string& name, std::string_view text, std::uint64_t min,
                       std::uint64_t max) const {
    std::uint64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || rest != text.data() + text.size() || value < min || value > max) {
      fail(concat(name, " is '", text, "', expected a whole number from ", min, " to ", max));
    }
    return value;
  }

  void set(SyntheticShape& shape, const std::string& name, std::string_view value) const {
    if (name == "samples") {
      shape.samples = number(name, value, 1, kMaxSamples);
    } else if (name == "size") {
      const std::size_t cross = value.find('x');
      shape.height = number(name, value.substr(0, cross), 1, 100'000);
      shape.width = cross == std::string_view::npos
                        ? shape.height
                        : number(name, value.substr(cross + 1), 1, 100'000);
    } else if (name == "channels") {
      shape.channels = number(name, value, 1, 3);
    } else if (name == "classes") {
      shape.classes = number(name, value, 1, 1'000'000);
    } else if (name == "seed") {
      shape.seed = number(name, value, 0, UINT64_MAX);
    } else {
      fail(concat("unknown name '", name, "'"));
    }
  }

  const std::string& text_;
};

class SyntheticDataset final : public Dataset {
 public:
  SyntheticDataset(const SyntheticShape& shape, int channels)
      : shape_(shape),
        channels_(channels == 0 ? static_cast<int>(shape.channels) : channels),
        class_names_(numbered_classes(static_cast<std::int64_t>(shape.classes))),
        labels_(shape.samples) {
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      labels_[i] = static_cast<std::int64_t>(i % shape.classes);
    }
  }

  std::span<const std::int64_t> labels() const override { return labels_; }
  std::span<const std::string> class_names() const override { return class_names_; }
  int channels() const override { return channels_; }
  ElementType element_type() const override { return ElementType::kUInt8; }
  std::uint64_t fingerprint() const override {
    Fingerprint fingerprint;
    fingerprint.add("synthetic");
    for (const std::uint64_t value : {shape_.samples, shape_.height, shape_.width, shape_.channels,
                                      shape_.classes, shape_.seed}) {
      fingerprint.add(value);
    }
    return fingerprint.value();
  }
  std::string sample_name(std::size_t index) const override {
    return concat("synthetic[", index, "]");
  }

  StoredSample read(std::size_t index, Buffer& buffer) const override {
    require(index < labels_.size(), "sample ", index, " of ", labels_.size());
    const std::size_t row_size = shape_.width * shape_.channels;
    const std::span<std::uint8_t> pixels = buffer.take(shape_.height * row_size);
    add_noise(index, pixels);
    for (std::size_t y = 0; y < shape_.height; ++y) {
      add_pattern(index, y, pixels.subspan(y * row_size, row_size));
    }
    return ImageView{static_cast<int>(shape_.height), static_cast<int>(shape_.width),
                     static_cast<int>(shape_.channels), ElementType::kUInt8, pixels};
  }

  SampleInfo describe(std::size_t) const override { return {"synthetic"}; }

 private:
  // Each byte 0 ... 127.
  void add_noise(std::size_t index, std::span<std::uint8_t> pixels) const {
    std::uint64_t state = mix(shape_.seed * kStep + index + 1);
    for (std::size_t at = 0; at < pixels.size(); at += sizeof(state)) {
      state += kStep;
      const std::uint64_t noise = mix(state) & 0x7f7f7f7f7f7f7f7fU;
      for (std::size_t i = 0; i < std::min(sizeof(noise), pixels.size() - at); ++i) {
        pixels[at + i] = static_cast<std::uint8_t>(noise >> (8 * i));
      }
    }
  }

  // The pattern of the class, 0 or 128 in each cell and channel. It does not depend on the seed, so
  // that what is learnt on one data set holds on another.
  void add_pattern(std::size_t index, std::size_t y, std::span<std::uint8_t> row) const {
    const auto label = static_cast<std::uint64_t>(labels_[index]);
    const std::uint64_t bits = mix((label + 1) * kStep) >> (y * kCells / shape_.height * 12);
    for (std::size_t x = 0; x < shape_.width; ++x) {
      const std::size_t cell = x * kCells / shape_.width;
      for (std::size_t c = 0; c < shape_.channels; ++c) {
        row[x * shape_.channels + c] |=
            static_cast<std::uint8_t>((bits >> (3 * cell + c) & 1) << 7);
      }
    }
  }

  SyntheticShape shape_;
  int channels_;
  std::vector<std::string> class_names_;
  std::vector<std::int64_t> labels_;
};

}  // namespace

std::unique_ptr<Dataset> open_synthetic(const DatasetOptions& options) {
  SyntheticShape shape;
  shape.channels = options.channels == 1 ? 1 : 3;
  shape.classes = options.classes > 0 ? static_cast<std::uint64_t>(options.classes) : 10;
  shape = ShapeParser(options.path).parse(shape);
  if (options.classes > 0 && shape.classes != static_cast<std::uint64_t>(options.classes)) {
    throw ConfigError(concat("synthetic data '", options.path, "' has ", shape.classes,
                             " classes, but data.classes is ", options.classes));
  }
  return std::make_unique<SyntheticDataset>(shape, options.channels);
}

}  // namespace temper
