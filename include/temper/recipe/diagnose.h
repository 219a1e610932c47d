#pragma once
// The program `diagnose`: what this machine is, what would go wrong on it, and a short all-reduce.

#include "temper/recipe/start.h"

namespace temper {

struct DiagnoseCommand {
  StartOptions start{};
  bool json = false;
};

// Prints the report on standard output, also when the all-reduce fails. Under our launcher the
// launching process prints it, under another one rank 0. Returns 0, or 1 when a check has failed;
// an all-reduce that hangs fails within a minute. Throws ConfigError for the user's mistakes.
[[nodiscard]] int run_diagnose(const DiagnoseCommand& command);

}  // namespace temper
