#pragma once
// Which checkpoint a run goes on from, and whether it may.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recipe/resume_rules.h"
#include "temper/checkpoint/directory.h"
#include "temper/checkpoint/value.h"
#include "temper/dist/communicator.h"
#include "temper/launch/run_directory.h"
#include "temper/recipe/training_run.h"

namespace temper {

// What counts in this attempt: after a restart the checkpoint of the attempt before, whatever the
// command says about the first start. A folder that another launch has left is not the attempt
// before. `run_directory` may be empty: not chosen yet.
[[nodiscard]] ResumePolicy policy_of_attempt(const ResumePolicy& asked,
                                             const std::filesystem::path& run_directory,
                                             const LaunchIdentity& identity, int requeues);

// The file that a run in `folder` goes on from; nothing when it starts anew. ConfigError when the
// policy wants a file and there is no valid one. `rejected`: damaged files that were passed over.
struct ChosenCheckpoint {
  std::string path;
  Value checkpoint;
};
[[nodiscard]] std::optional<ChosenCheckpoint> choose_checkpoint(
    const ResumePolicy& policy, const std::filesystem::path& folder,
    std::vector<RejectedFile>* rejected = nullptr);

// The same in words, for a dry run: what a run in this run directory (empty: a new one) would go on
// from, and which files it would pass over. Whether the data fit is not looked at.
[[nodiscard]] std::string resume_text(const ResumePolicy& policy,
                                      const std::filesystem::path& run_directory);

// The entries of a checkpoint that `find_checkpoint` reads.
[[nodiscard]] ValueDict to_entries(const ResumeKey& key);

// A collective: the main rank chooses, all ranks read the same file, which their checksums show.
// Nothing when the run starts anew. When there must be a file and is none, or when it does not fit
// the run, the main rank throws ConfigError and the others AgreedError; when a rank cannot read it,
// or finds another file there, all throw AgreedError. `now.compute_threads` becomes that of the
// file.
[[nodiscard]] std::optional<Value> find_checkpoint(const ResumePolicy& policy,
                                                   const std::filesystem::path& folder,
                                                   Communicator& communicator, ResumeKey& now,
                                                   const std::vector<std::string>& allowed);

}  // namespace temper
