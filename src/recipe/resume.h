#pragma once
// Which checkpoint a run goes on from, and whether it may.

#include <filesystem>
#include <optional>
#include <string>

#include "temper/checkpoint/value.h"
#include "temper/dist/communicator.h"
#include "temper/recipe/training_run.h"

namespace temper {

// What must be the same before and after: the samples of an update depend on it.
struct ResumeKey {
  std::string data_fingerprint;
  std::int64_t seed = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t compute_threads = 1;  // not compared: a resumed run takes over the number
  std::string config;                // a difference is logged, not refused
};

// The entries of a checkpoint that `find_checkpoint` reads.
[[nodiscard]] ValueDict to_entries(const ResumeKey& key);

// A collective: the main rank chooses, all ranks read the same file. Nothing when the run starts
// anew. Throws ConfigError when there must be one and is none, or when it does not fit the run.
// `now.compute_threads` becomes that of the file.
[[nodiscard]] std::optional<Value> find_checkpoint(const ResumePolicy& policy,
                                                   const std::filesystem::path& folder,
                                                   Communicator& communicator, ResumeKey& now);

}  // namespace temper
