#pragma once
// A labelled set of images with a fixed order. The index (names, labels, sizes) is read and checked
// when the data set is opened, pixels when a sample is loaded.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "temper/data/image.h"

namespace temper {

// What is known of a stored sample beside its pixels.
struct SampleInfo {
  std::string format;  // e.g. "jpeg", "jpeg progressive", "png", "npz", "cifar10"
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] std::size_t size() const { return labels().size(); }

  // One label a sample, each in 0 ... class_names().size() - 1.
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

  // Reads and decodes one sample. Any number of threads may call it. Throws DataError that names
  // the sample and the reason when the data is damaged or unsupported, SystemError when it cannot
  // be read.
  [[nodiscard]] virtual Image load(std::size_t index) const = 0;

  // How the sample is stored; may read the file. Throws as load() does.
  [[nodiscard]] virtual SampleInfo describe(std::size_t index) const = 0;
};

}  // namespace temper
