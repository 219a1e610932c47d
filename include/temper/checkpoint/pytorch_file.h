#pragma once
// Reads files of Python's torch.save without Python. Nothing in the file is executed: the pickle
// machine knows only the operations that build data, and only the globals that PyTorch uses for
// tensors; any other one is refused by name.

#include <filesystem>

#include "temper/checkpoint/value.h"

namespace temper {

// Dict and OrderedDict become dicts (integer keys as decimal text), lists, tuples and torch.Size
// become lists, parameters and tensors of any strided dtype become CPU tensors with the strides and
// sharing they were saved with. The archive's own CRC-32 is checked where it was written. Throws
// DataError with file and reason; the format before PyTorch 1.6 and TorchScript are refused.
[[nodiscard]] Value read_pytorch_file(const std::filesystem::path& path);

}  // namespace temper
