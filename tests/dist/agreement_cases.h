#pragma once
// Cases about what ranks must decide together.

#include "support/rank_processes.h"

namespace temper::testing_support {

void add_checker_cases(RankCases& cases);
void add_failure_cases(RankCases& cases);

}  // namespace temper::testing_support
