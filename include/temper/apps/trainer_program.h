#pragma once
// The program `trainer` as a function, for programs with entries of their own in the catalogs.

#include "temper/recipe/build.h"

namespace temper {

// Reads the command line of `trainer` and does what it says: starts the ranks, is one of them, or
// prints. A configuration may name what the catalogs hold. Errors are printed; returns the exit
// status.
[[nodiscard]] int run_trainer(int argc, char** argv, const Catalogs& catalogs = {});

}  // namespace temper
