#pragma once
// Cases that run as several processes; each group of cases adds its own.

#include "support/rank_processes.h"

namespace temper::testing_support {

void add_equality_cases(RankCases& cases);
void add_evaluation_cases(RankCases& cases);
void add_attack_cases(RankCases& cases);
void add_batch_norm_cases(RankCases& cases);
void add_collectives_cases(RankCases& cases);
void add_sanity_cases(RankCases& cases);
void add_resume_cases(RankCases& cases);
void add_replica_cases(RankCases& cases);

}  // namespace temper::testing_support
