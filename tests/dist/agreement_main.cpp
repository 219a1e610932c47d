#include <gtest/gtest.h>

#include "dist/agreement_cases.h"

int main(int argc, char** argv) {
  temper::testing_support::RankCases cases;
  temper::testing_support::add_checker_cases(cases);
  temper::testing_support::add_failure_cases(cases);
  const int status = temper::testing_support::run_as_rank(cases);
  if (status >= 0) {
    return status;
  }
  temper::testing_support::fork_ranks(cases);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
