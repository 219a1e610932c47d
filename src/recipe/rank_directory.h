#pragma once
// Where a rank's run lies, and what identifies the launch that made it.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "recipe/rank_runtime.h"
#include "temper/launch/run_directory.h"

namespace temper {

// Each once, in the order of the ranks.
[[nodiscard]] std::vector<std::string> host_names(const std::vector<RankHost>& hosts);

// Of a connected rank.
[[nodiscard]] LaunchIdentity launch_identity(const RankRuntime& runtime);

class RankDirectory {
 public:
  // A collective. The launcher's choice; else rank 0 chooses, from --run-dir (`asked`, may be
  // empty) and the configuration, and tells the others. Opens the rank's log there unless the
  // launcher did.
  RankDirectory(RankRuntime& runtime, const Config& config, const std::filesystem::path& asked);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::optional<RunDirectoryLock> lock_;  // of the main rank, where no launcher holds it
};

}  // namespace temper
