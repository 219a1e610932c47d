#pragma once
// The program `trainer` behind its command line; a program of one's own may call it with more
// entries in the catalogs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "temper/recipe/build.h"
#include "temper/recipe/start.h"

namespace temper {

// Options as the user gave them; `trainer --help` explains each.
struct TrainCommand {
  std::vector<std::filesystem::path> configs;
  std::vector<std::string> overrides;
  StartOptions start;
  std::optional<int> cpus;
  std::string run_directory;
  std::string resume = "auto";
  std::vector<std::string> allowed_changes;
  std::string progress = "auto";
  int smoke = 0;  // updates of a smoke run; 0: a whole run
  bool dry_run = false;
  bool print_config = false;
  bool print_sbatch = false;
  // Sees each rank's phases ("attack", "validation", ...) as they begin; not an option of
  // `trainer`.
  std::function<void(const RankEnvironment& rank, std::string_view phase, std::uint64_t update)>
      on_phase{};
};

// Returns the exit status. Throws ConfigError for the user's mistakes.
[[nodiscard]] int run_train_command(const TrainCommand& command, const Catalogs& catalogs = {});

}  // namespace temper
