#pragma once
// A checkpoint file: a zip archive in the layout of PyTorch's torch.save, which Python opens with
// torch.load(path, weights_only=True) as plain dicts, lists, tensors, numbers and text. One record
// more, manifest.json, lists name, dtype, shape, byte count and CRC-32 of each tensor, the CRC-32
// of the pickle record, and one of itself.
//
// Tensors are stored contiguous in the order of their dimensions, so that a view takes no more
// space than its elements; a channels-last tensor keeps its values, not its strides. The same
// tensor under several names (tied weights) is stored once and shared again after reading.

#include <filesystem>

#include "temper/checkpoint/value.h"

namespace temper {

// Replaces `path` in one step (temporary name, sync, rename). Tensors may live on any device.
// Throws SystemError, after which the old file is still there; DataError for a tensor that is
// undefined, sparse or quantized.
void write_checkpoint(const std::filesystem::path& path, const Value& value);

// Tensors come on the CPU and own their memory. Everything is checked against the manifest: damage
// of any kind is a DataError that names the file and the reason; a missing file a SystemError.
[[nodiscard]] Value read_checkpoint(const std::filesystem::path& path);

}  // namespace temper
