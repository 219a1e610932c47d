#pragma once
// Writes a data set as one PNG file per sample in one folder per class.

#include <cstdint>
#include <filesystem>

#include "temper/data/dataset.h"

namespace temper {

// Names are padded with zeros, so that byte order is the order of samples and class folders sort by
// label: the result opened as a folder holds the same samples of each class in the same order.
// Returns the number of files. `folder` appears in one step, complete; it must not exist yet
// (ConfigError). Float images are refused with a ConfigError, as PNG cannot hold them exactly.
std::uint64_t unpack_dataset(const Dataset& dataset, const std::filesystem::path& folder);

}  // namespace temper
