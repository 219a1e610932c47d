#pragma once
// A labelled set of images with a fixed order. The index (names, labels, sizes) is read and checked
// when the data set is opened, pixels when a sample is loaded.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "temper/data/buffer.h"
#include "temper/data/image.h"

namespace temper {

// The label of a sample that has none.
inline constexpr std::int64_t kNoLabel = -1;

// What is known of a stored sample beside its pixels.
struct SampleInfo {
  std::string format;  // e.g. "jpeg", "jpeg progressive", "png", "npz", "cifar10"
};

// The bytes of an image file, e.g. JPEG.
struct EncodedImage {
  std::span<const std::uint8_t> bytes;
  bool upright = false;  // is to be turned as its EXIF orientation says
};

// What a data set holds of one sample, not decoded.
using StoredSample = std::variant<EncodedImage, ImageView>;

// Copies an image to the buffer.
[[nodiscard]] ImageView store(const Image& image, Buffer& buffer);

class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] std::size_t size() const { return labels().size(); }

  // One label a sample, each in 0 ... class_names().size() - 1, or kNoLabel.
  [[nodiscard]] virtual std::span<const std::int64_t> labels() const = 0;

  // Index: label.
  [[nodiscard]] virtual std::span<const std::string> class_names() const = 0;

  // Channels and element type of every loaded image.
  [[nodiscard]] virtual int channels() const = 0;
  [[nodiscard]] virtual ElementType element_type() const = 0;

  // A hash of the index: names relative to the root, labels, sizes and for arrays checksums of the
  // content. Equal on all ranks and hosts that see the same data, whatever the folder's path.
  [[nodiscard]] virtual std::uint64_t fingerprint() const = 0;

  // For messages: a file's path, or "x.npz[12]".
  [[nodiscard]] virtual std::string sample_name(std::size_t index) const = 0;

  // The sample's name within the data set, e.g. "cat/1.jpg"; the same wherever the data set lies.
  [[nodiscard]] virtual std::string local_name(std::size_t index) const;

  // Where the sample begins in the file that holds it with others.
  [[nodiscard]] virtual std::optional<std::uint64_t> offset(std::size_t index) const;

  // Memory that holds pixels for the whole life of the data set, mapped files excepted.
  [[nodiscard]] virtual std::uint64_t held_bytes() const { return 0; }

  // Checks what neither opening nor read() does, e.g. the checksum of a large archive. May read all
  // of it. Throws DataError.
  virtual void check_storage() const {}

  // Reads one sample into `buffer`, or refers to memory of the data set; valid until the buffer is
  // used again. Pixels may have 1 or 3 channels whatever channels() is. Any number of threads may
  // call it, each with a buffer of its own. Throws DataError that names the sample and the reason
  // when it is damaged or cannot be read.
  [[nodiscard]] virtual StoredSample read(std::size_t index, Buffer& buffer) const = 0;

  // Bytes of the buffer that read() takes; 0 when that is not known before.
  [[nodiscard]] virtual std::uint64_t stored_size(std::size_t index) const;

  // Reads and decodes one sample, with channels() channels. Throws as read() does, also for pixels
  // that cannot be decoded.
  [[nodiscard]] Image load(std::size_t index) const;

  // How the sample is stored; may read the file. Throws as load() does.
  [[nodiscard]] virtual SampleInfo describe(std::size_t index) const = 0;
};

}  // namespace temper
