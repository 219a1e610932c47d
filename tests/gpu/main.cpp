#include "gpu/gpus.h"

int main(int argc, char** argv) {
  temper::testing_support::RankCases cases;
  temper::testing_support::add_several_gpu_cases(cases);
  const int status = temper::testing_support::run_as_rank(cases, temper::Backend::kNccl);
  if (status >= 0) {
    return status;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
