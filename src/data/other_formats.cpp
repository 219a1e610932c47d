#include "data/other_formats.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include "temper/core/error.h"

namespace temper {
namespace {

using namespace std::string_view_literals;
using Bytes = std::span<const std::uint8_t>;

[[noreturn]] void fail_unsupported(std::string_view what) {
  throw DataError(concat("unsupported ", what, "; convert the file to PNG or JPEG"));
}
[[noreturn]] void fail_truncated(std::string_view format) {
  throw DataError(concat("truncated: the ", format, " file ends before its pixels"));
}

// Integers out of a file; a place behind its end is a truncated file.
class Fields {
 public:
  Fields(Bytes data, std::string_view format, bool big_endian = false)
      : data_(data), format_(format), big_endian_(big_endian) {}

  [[nodiscard]] std::uint32_t at(std::uint64_t offset, unsigned bytes) const {
    need(offset, bytes);
    std::uint32_t value = 0;
    for (unsigned i = 0; i < bytes; ++i) {
      const unsigned shift = 8 * (big_endian_ ? bytes - 1 - i : i);
      value |= std::uint32_t{data_[offset + i]} << shift;
    }
    return value;
  }
  [[nodiscard]] bool has(std::uint64_t offset, std::string_view text) const {
    need(offset, text.size());
    return std::equal(text.begin(), text.end(), data_.begin() + static_cast<std::ptrdiff_t>(offset),
                      [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
  }
  void need(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset > data_.size() || bytes > data_.size() - offset) {
      fail_truncated(format_);
    }
  }

 private:
  Bytes data_;
  std::string_view format_;
  bool big_endian_;
};

// The masks of 32-bit pixels that are not blue, green, red, unused.
bool has_odd_masks(const Fields& fields) {
  return fields.at(54, 4) != 0xFF0000 || fields.at(58, 4) != 0xFF00 || fields.at(62, 4) != 0xFF;
}

OtherHeader read_bmp(Bytes data) {
  const Fields fields(data, "BMP");
  const std::uint32_t header_size = fields.at(14, 4);
  if (header_size < 40) {
    fail_unsupported("BMP of OS/2");
  }
  const std::uint64_t width = fields.at(18, 4);
  const auto signed_height = static_cast<std::int32_t>(fields.at(22, 4));
  const auto height = static_cast<std::uint64_t>(std::abs(std::int64_t{signed_height}));
  const std::uint32_t bits = fields.at(28, 2);
  const std::uint32_t compression = fields.at(30, 4);
  constexpr std::uint32_t kMasks = 3;
  const bool plain =
      compression == 0 && (bits == 1 || bits == 4 || bits == 8 || bits == 24 || bits == 32);
  if (!plain && !(compression == kMasks && bits == 32 && !has_odd_masks(fields))) {
    fail_unsupported(concat("BMP with ", bits, " bits and compression ", compression));
  }
  check_image_size(width, height);
  fields.need(fields.at(10, 4), (width * bits + 31) / 32 * 4 * height);
  return {"bmp", width, height};
}

OtherHeader read_webp(Bytes data) {
  const Fields fields(data, "WebP");
  fields.need(8, std::uint64_t{fields.at(4, 4)});
  if (fields.has(12, "VP8X")) {
    constexpr std::uint32_t kAnimation = 2;
    if ((fields.at(20, 1) & kAnimation) != 0) {
      fail_unsupported("animated WebP");
    }
    return {"webp", std::uint64_t{fields.at(24, 3)} + 1, std::uint64_t{fields.at(27, 3)} + 1};
  }
  if (fields.has(12, "VP8L")) {
    const std::uint32_t sizes = fields.at(21, 4);
    return {"webp", (sizes & 0x3FFF) + 1, (sizes >> 14 & 0x3FFF) + 1};
  }
  if (fields.has(12, "VP8 ")) {
    return {"webp", fields.at(26, 2) & 0x3FFF, fields.at(28, 2) & 0x3FFF};
  }
  throw DataError("corrupt WebP: its first chunk holds no image");
}

// The numbers of a header, between white space and comments to the end of the line.
class PnmHeader {
 public:
  explicit PnmHeader(Bytes data) : data_(data) {}

  std::uint64_t next() {
    skip_space();
    const auto* text = reinterpret_cast<const char*>(data_.data());
    std::uint64_t value = 0;
    const auto result = std::from_chars(text + at_, text + data_.size(), value);
    if (result.ec != std::errc{}) {
      if (at_ == data_.size()) {
        fail_truncated("PNM");
      }
      throw DataError("corrupt PNM: a number is missing in the header");
    }
    at_ = static_cast<std::size_t>(result.ptr - text);
    return value;
  }
  // Where the pixels begin, after one white space.
  [[nodiscard]] std::size_t pixels() const { return at_ + 1; }

 private:
  void skip_space() {
    bool comment = false;
    for (; at_ < data_.size(); ++at_) {
      const std::uint8_t c = data_[at_];
      comment = (comment && c != '\n' && c != '\r') || c == '#';
      if (!comment && c != ' ' && (c < '\t' || c > '\r')) {
        return;
      }
    }
  }

  Bytes data_;
  std::size_t at_ = 2;
};

OtherHeader read_pnm(Bytes data) {
  const char kind = static_cast<char>(data[1]);
  if (kind < '4') {
    fail_unsupported("PNM with pixels as text");
  }
  PnmHeader header(data);
  const std::uint64_t width = header.next();
  const std::uint64_t height = header.next();
  const std::uint64_t largest = kind == '4' ? 255 : header.next();
  if (largest != 255) {
    fail_unsupported(concat("PNM with levels up to ", largest));
  }
  check_image_size(width, height);
  const std::uint64_t row = kind == '4' ? (width + 7) / 8 : kind == '5' ? width : 3 * width;
  Fields(data, "PNM").need(header.pixels(), row * height);
  return {"pnm", width, height};
}

// The first folder of tags.
class TiffTags {
 public:
  explicit TiffTags(Bytes data) : fields_(data, "TIFF", data[0] == 'M') {
    folder_ = fields_.at(4, 4);
    count_ = fields_.at(folder_, 2);
  }

  // All values of a tag; `standard` alone if it is not there.
  [[nodiscard]] std::vector<std::uint32_t> values(std::uint32_t tag, std::uint32_t standard) const {
    for (std::uint32_t i = 0; i < count_; ++i) {
      const std::uint64_t entry = folder_ + 2 + std::uint64_t{12} * i;
      if (fields_.at(entry, 2) == tag) {
        return read(entry, tag);
      }
    }
    return {standard};
  }
  [[nodiscard]] bool all_are(std::uint32_t tag, std::uint32_t wanted,
                             std::uint32_t standard) const {
    const std::vector<std::uint32_t> found = values(tag, standard);
    return std::all_of(found.begin(), found.end(), [&](std::uint32_t v) { return v == wanted; });
  }
  [[nodiscard]] const Fields& fields() const { return fields_; }

 private:
  [[nodiscard]] std::vector<std::uint32_t> read(std::uint64_t entry, std::uint32_t tag) const {
    constexpr std::uint32_t kShort = 3;
    constexpr std::uint32_t kLong = 4;
    const std::uint32_t type = fields_.at(entry + 2, 2);
    const std::uint64_t count = fields_.at(entry + 4, 4);
    if (type != kShort && type != kLong) {
      fail_unsupported(concat("TIFF: tag ", tag, " has type ", type));
    }
    const unsigned bytes = type == kShort ? 2 : 4;
    const std::uint64_t place = count * bytes <= 4 ? entry + 8 : fields_.at(entry + 8, 4);
    fields_.need(place, count * bytes);
    std::vector<std::uint32_t> found;
    for (std::uint64_t i = 0; i < count; ++i) {
      found.push_back(fields_.at(place + i * bytes, bytes));
    }
    return found;
  }

  Fields fields_;
  std::uint64_t folder_ = 0;
  std::uint32_t count_ = 0;
};

std::uint32_t first(const TiffTags& tags, std::uint32_t tag, std::uint32_t standard) {
  const std::vector<std::uint32_t> found = tags.values(tag, standard);
  return found.empty() ? standard : found.front();
}

OtherHeader read_tiff(Bytes data) {
  enum Tag : std::uint32_t {
    kWidth = 256,
    kHeight = 257,
    kBits = 258,
    kCompression = 259,
    kPhotometric = 262,
    kOffsets = 273,
    kOrientation = 274,
    kSamples = 277,
    kCounts = 279,
    kPlanes = 284,
    kSampleFormat = 339,
  };
  const TiffTags tags(data);
  const std::uint64_t width = first(tags, kWidth, 0);
  const std::uint64_t height = first(tags, kHeight, 0);
  const std::uint32_t samples = first(tags, kSamples, 1);
  const std::uint32_t photometric = first(tags, kPhotometric, 0);
  const std::uint32_t compression = first(tags, kCompression, 1);
  constexpr std::array<std::uint32_t, 5> kCompressions = {1, 5, 8, 32773, 32946};
  // Gray, RGB, palette.
  const bool colors =
      photometric == 2 ? samples == 3 : samples == 1 && (photometric == 1 || photometric == 3);
  if (!colors || !tags.all_are(kBits, 8, 1) || !tags.all_are(kOrientation, 1, 1) ||
      !tags.all_are(kPlanes, 1, 1) || !tags.all_are(kSampleFormat, 1, 1) ||
      std::find(kCompressions.begin(), kCompressions.end(), compression) == kCompressions.end() ||
      tags.values(kOffsets, 0) == std::vector<std::uint32_t>{0}) {
    fail_unsupported("kind of TIFF");
  }
  check_image_size(width, height);
  const std::vector<std::uint32_t> offsets = tags.values(kOffsets, 0);
  const std::vector<std::uint32_t> counts = tags.values(kCounts, 0);
  if (offsets.size() != counts.size()) {
    throw DataError("corrupt TIFF: strips without sizes");
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    tags.fields().need(offsets[i], counts[i]);
  }
  return {"tiff", width, height};
}

struct Format {
  std::string_view signature;
  std::string_view name;
  OtherHeader (*read)(Bytes);  // null: no variant is supported
};

constexpr std::array kFormats = {
    Format{"BM", "BMP", read_bmp},
    Format{"RIFF", "WebP", read_webp},
    Format{"II*", "TIFF", read_tiff},
    Format{"MM\0*"sv, "TIFF", read_tiff},
    Format{"P1", "PNM", read_pnm},
    Format{"P2", "PNM", read_pnm},
    Format{"P3", "PNM", read_pnm},
    Format{"P4", "PNM", read_pnm},
    Format{"P5", "PNM", read_pnm},
    Format{"P6", "PNM", read_pnm},
    Format{"GIF8", "GIF", nullptr},
    Format{"\xff\x4f\xff\x51", "JPEG 2000", nullptr},
    Format{"\0\0\0\x0cjP  \r\n\x87\n"sv, "JPEG 2000", nullptr},
};

const Format* find_format(Bytes data) {
  const std::string_view text(reinterpret_cast<const char*>(data.data()), data.size());
  for (const Format& format : kFormats) {
    if (text.starts_with(format.signature) &&
        (format.name != "WebP" || (text.size() >= 12 && text.substr(8, 4) == "WEBP"))) {
      return &format;
    }
  }
  return nullptr;
}

}  // namespace

std::optional<std::string_view> other_format(Bytes data) {
  const Format* format = find_format(data);
  return format == nullptr ? std::nullopt : std::optional(format->name);
}

OtherHeader read_other_header(Bytes data) {
  const Format* format = find_format(data);
  require(format != nullptr, "no such format");
  if (format->read == nullptr) {
    fail_unsupported(concat("format ", format->name));
  }
  const OtherHeader header = format->read(data);
  check_image_size(header.width, header.height);
  return header;
}

}  // namespace temper
