#pragma once
// Options that trainer and evaluator share.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "temper/recipe/start.h"

namespace temper::apps {

struct CommonArguments {
  std::vector<std::filesystem::path> configs;
  std::vector<std::string> overrides;
  StartOptions start;
  std::string grace;  // empty: the default of this place
  std::string peer_grace = "10s";
  std::string hang_timeout;  // empty: from distributed.timeout
  int cpus = 0;              // 0: the budget of this process
  std::string ignored_local_rank;

  // What the texts above mean, after parsing.
  [[nodiscard]] StartOptions start_options() const;
  [[nodiscard]] std::optional<int> cpu_count() const {
    return cpus > 0 ? std::optional(cpus) : std::nullopt;
  }
};

void add_common_options(CLI::App& app, CommonArguments& arguments, int argc, char** argv);

// Parses and runs; usage errors end with status 2.
int run_app(CLI::App& app, int argc, char** argv, const std::function<int()>& main);

}  // namespace temper::apps
