#include "data/exif.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "temper/core/error.h"

namespace temper {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExif = "Exif\0\0"sv;
constexpr std::string_view kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;

std::uint32_t integer(std::string_view text, std::size_t at, unsigned bytes, bool big_endian) {
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[at + (big_endian ? i : bytes - 1 - i)]);
    value = value << 8 | byte;
  }
  return value;
}

// The tag in the first folder of EXIF data, without the prefix.
std::optional<int> orientation_in_exif(std::string_view tiff) {
  const bool big = tiff.starts_with("MM\0*"sv);
  if (tiff.size() < 10 || (!big && !tiff.starts_with("II*\0"sv))) {
    return std::nullopt;
  }
  const std::uint64_t folder = integer(tiff, 4, 4, big);
  if (folder > tiff.size() - 2) {
    return std::nullopt;
  }
  constexpr std::uint32_t kOrientation = 0x0112;
  constexpr std::uint32_t kShort = 3;
  constexpr std::uint32_t kLong = 4;
  constexpr std::size_t kEntry = 12;
  const std::uint64_t count = integer(tiff, folder, 2, big);
  for (std::uint64_t i = 0; i < count && folder + 2 + (i + 1) * kEntry <= tiff.size(); ++i) {
    const std::size_t entry = folder + 2 + i * kEntry;
    const std::uint32_t type = integer(tiff, entry + 2, 2, big);
    if (integer(tiff, entry, 2, big) == kOrientation && (type == kShort || type == kLong) &&
        integer(tiff, entry + 4, 4, big) == 1) {
      const std::uint32_t value = integer(tiff, entry + 8, type == kShort ? 2 : 4, big);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return std::nullopt;
}

std::optional<int> orientation_in_xmp(std::string_view xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  for (std::size_t at = xmp.find(kName); at != std::string_view::npos;
       at = xmp.find(kName, at + 1)) {
    std::string_view rest = xmp.substr(at + kName.size());
    rest.remove_prefix(rest.starts_with("=\"") ? 2 : rest.starts_with(">") ? 1 : rest.size());
    if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
      const int value = rest.front() - '0';
      return value >= 1 && value <= 8 ? value : 1;
    }
  }
  return std::nullopt;
}

// What a file says; the first word of each kind counts.
struct Found {
  std::optional<int> exif;
  std::optional<int> xmp;

  [[nodiscard]] int orientation() const { return exif.value_or(xmp.value_or(1)); }
};

void look_at_jpeg(std::string_view file, Found& found) {
  constexpr char kApp1 = '\xe1';
  for (std::size_t at = 2; at + 4 <= file.size() && file[at] == '\xff';) {
    const char marker = file[at + 1];
    if (marker == '\xff') {
      ++at;
      continue;
    }
    const std::size_t length = integer(file, at + 2, 2, true);
    const std::string_view content = file.substr(at + 4, std::max<std::size_t>(length, 2) - 2);
    if (marker == '\xda') {
      return;
    }
    if (marker == kApp1 && content.starts_with(kExif) && !found.exif) {
      found.exif = orientation_in_exif(content.substr(kExif.size()));
    } else if (marker == kApp1 && content.starts_with(kXmp) && !found.xmp) {
      found.xmp = orientation_in_xmp(content);
    }
    at += 2 + length;
  }
}

void look_at_png(std::string_view file, Found& found) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kAround = 12;  // length, type and checksum of a chunk
  constexpr std::string_view kKeyword = "XML:com.adobe.xmp\0\0"sv;  // not compressed
  for (std::size_t at = kSignature; at + kAround <= file.size();) {
    const std::size_t length = integer(file, at, 4, true);
    const std::string_view type = file.substr(at + 4, 4);
    const std::string_view content = file.substr(at + 8, length);
    if (type == "eXIf") {
      found.exif = orientation_in_exif(content);
    } else if (type == "iTXt" && content.starts_with(kKeyword)) {
      found.xmp = orientation_in_xmp(content);
    }
    at += length + kAround;
  }
}

// Where pixel (0, 0) of the turned picture comes from, and how far its neighbours to the right and
// below are from there, in pixels.
struct Walk {
  std::ptrdiff_t begin = 0;
  std::ptrdiff_t right = 0;
  std::ptrdiff_t down = 0;
};

Walk walk_of(int orientation, std::ptrdiff_t width, std::ptrdiff_t height) {
  const std::ptrdiff_t last_column = width - 1;
  const std::ptrdiff_t last_row = (height - 1) * width;
  switch (orientation) {
    case 2:
      return {last_column, -1, width};
    case 3:
      return {last_row + last_column, -1, -width};
    case 4:
      return {last_row, 1, -width};
    case 5:
      return {0, width, 1};
    case 6:
      return {last_row, -width, 1};
    case 7:
      return {last_row + last_column, -width, -1};
    case 8:
      return {last_column, width, -1};
    default:
      return {0, 1, width};
  }
}

class TurnedDecoder final : public ImageDecoder {
 public:
  TurnedDecoder(std::unique_ptr<ImageDecoder> decoder, int orientation)
      : decoder_(std::move(decoder)), orientation_(orientation) {}

  int width() const override { return is_transposed() ? decoder_->height() : decoder_->width(); }
  int height() const override { return is_transposed() ? decoder_->width() : decoder_->height(); }
  std::uint64_t memory_needed(const Rectangle&, int channels) const override {
    return decoder_->memory_needed(whole(), channels) + size(channels);
  }

  PictureRegion decode(const Rectangle&, int channels, Buffer& buffer) override {
    Buffer memory;
    const PictureRegion stored = decoder_->decode(whole(), channels, memory);
    const std::span out = buffer.take(size(channels));
    // A decoder may give more columns than asked for, but there are no more.
    require(stored.pixels.width == decoder_->width() && stored.x == 0, "not the whole picture");
    const Walk walk = walk_of(orientation_, decoder_->width(), decoder_->height());
    std::uint8_t* to = out.data();
    for (int y = 0; y < height(); ++y) {
      std::ptrdiff_t from = walk.begin + y * walk.down;
      for (int x = 0; x < width(); ++x, from += walk.right, to += channels) {
        std::copy_n(stored.pixels.bytes.data() + from * channels, channels, to);
      }
    }
    return {{height(), width(), channels, ElementType::kUInt8, out}, 0, 0};
  }

 private:
  [[nodiscard]] bool is_transposed() const { return orientation_ >= 5; }
  [[nodiscard]] Rectangle whole() const { return {0, 0, decoder_->width(), decoder_->height()}; }
  [[nodiscard]] std::size_t size(int channels) const {
    return static_cast<std::size_t>(decoder_->width()) *
           static_cast<std::size_t>(decoder_->height()) * static_cast<std::size_t>(channels);
  }

  std::unique_ptr<ImageDecoder> decoder_;
  int orientation_;
};

}  // namespace

int exif_orientation(std::span<const std::uint8_t> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  Found found;
  if (text.starts_with("\xff\xd8")) {
    look_at_jpeg(text, found);
  } else if (text.starts_with("\x89PNG\r\n\x1a\n")) {
    look_at_png(text, found);
  }
  return found.orientation();
}

std::unique_ptr<ImageDecoder> turned(std::unique_ptr<ImageDecoder> decoder, int orientation) {
  if (orientation == 1) {
    return decoder;
  }
  return std::make_unique<TurnedDecoder>(std::move(decoder), orientation);
}

}  // namespace temper
