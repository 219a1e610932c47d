#pragma once
// Writes a data set as a pack: one file, or a folder of shards, that holds all samples one after
// another with an index and checksums. Opened with the format `pack` it gives the same batches as
// its source: same order, labels, class names, names and pixels, and the same fingerprint, so that
// a run may go on from one with the other.

#include <cstdint>
#include <filesystem>

#include "temper/data/dataset.h"

namespace temper {

struct PackOptions {
  int shards = 0;       // 0: one file; otherwise a folder of that many files
  bool pixels = false;  // decoded pixels instead of the bytes of the image files
  int threads = 1;
};

struct PackSummary {
  std::uint64_t samples = 0;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

// Image files keep their bytes and are not decoded unless `pixels` is set; data sets of arrays keep
// their element type. `output` appears in one step, complete and synced, and must not exist yet.
// Throws ConfigError for options that do not fit, and the error of the first sample that cannot be
// read.
PackSummary pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                         const PackOptions& options);

}  // namespace temper
