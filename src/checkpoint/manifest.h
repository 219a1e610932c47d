#pragma once
// The checksums of a checkpoint file.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "temper/checkpoint/value.h"

namespace temper {

struct RecordSum {
  std::uint64_t bytes = 0;
  std::uint32_t crc32 = 0;
  friend bool operator==(const RecordSum&, const RecordSum&) = default;
};

struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string record;
  RecordSum sum;
};

struct Manifest {
  RecordSum pickle;
  std::vector<TensorEntry> tensors;
};

[[nodiscard]] TensorEntry describe_tensor(const std::string& name, const at::Tensor& tensor);

// The text ends with a checksum over all that comes before it.
[[nodiscard]] std::string to_json(const Manifest& manifest);

// Throws DataError with the reason.
[[nodiscard]] Manifest parse_manifest(const std::string& text);

// Throws DataError unless the tensors of `value` are those of the manifest: names, order, types and
// shapes.
void check_tensors(const Manifest& manifest, const Value& value);

}  // namespace temper
