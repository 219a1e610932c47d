#pragma once
// The safetensors format: the length of a JSON header in 8 little-endian bytes, the header with
// type, shape and byte range of each tensor, and the elements, row by row, without gaps.

#include <filesystem>

#include "temper/core/state_dict.h"

namespace temper {

// Tensors on the CPU in the order of the header; its `__metadata__` is ignored. Types F64, F32,
// F16, BF16, I64, I32, I16, I8, U8 and BOOL; another one is refused by name. Throws DataError with
// file, tensor and reason for anything that does not fit together: a header or range beyond the
// file, gaps and overlaps, a size that differs from type and shape, a name twice. A missing file is
// a SystemError.
[[nodiscard]] StateDict read_safetensors(const std::filesystem::path& path);

// Replaces `path` in one step (temporary name, sync, rename), with the metadata {"format": "pt"}.
// Tensors may live on any device and are stored contiguous, tied ones once for each name, in the
// order of the reference writer: by type, then by name. Throws DataError for a type that the format
// lacks here and for names that are not UTF-8, empty, `__metadata__` or given twice; SystemError,
// after which the old file is still there.
void write_safetensors(const std::filesystem::path& path, const StateDict& state);

}  // namespace temper
