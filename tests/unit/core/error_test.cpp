#include "temper/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace temper {
namespace {

TEST(Require, NamesFileLineAndMessage) {
  const int line = __LINE__ + 2;
  try {
    require(false, "rank ", 3, " of ", 4);
    FAIL() << "require did not throw";
  } catch (const CheckFailure& failure) {
    EXPECT_THAT(failure.what(),
                testing::HasSubstr(concat("error_test.cpp:", line, ": check failed: rank 3 of 4")));
  }
}

TEST(Require, PassesWhenTheConditionHolds) { EXPECT_NO_THROW(require(true, "unused")); }

TEST(SystemError, CarriesTheSystemsReason) {
  errno = ENOENT;
  try {
    throw_errno("cannot open x");
  } catch (const SystemError& error) {
    EXPECT_STREQ(error.what(), "cannot open x: No such file or directory");
    EXPECT_EQ(error.code(), ENOENT);
  }
}

}  // namespace
}  // namespace temper
