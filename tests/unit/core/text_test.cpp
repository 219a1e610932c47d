#include "temper/core/text.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

TEST(Text, ConcatJoinsStringsAndNumbers) {
  EXPECT_EQ(concat("a", 1, ' ', 0.1, " ", true, std::string("z")), "a1 0.1 truez");
}

TEST(Text, FixedKeepsTheDigits) {
  EXPECT_EQ(fixed(93.333333, 2), "93.33");
  EXPECT_EQ(fixed(1, 0), "1");
  EXPECT_EQ(fixed(-1e-9, 2), "0.00");
  EXPECT_EQ(fixed(-0.1, 1), "-0.1");
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a..b", '.'), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Text, TrimRemovesSpaceAtBothEnds) {
  EXPECT_EQ(trim(" \ta b\n"), "a b");
  EXPECT_EQ(trim("  "), "");
}

TEST(Text, ClosestMatchFindsTyposOnly) {
  const std::vector<std::string> names{"learning_rate", "momentum", "nesterov"};
  EXPECT_EQ(closest_match("lerning_rate", names), "learning_rate");
  EXPECT_EQ(closest_match("zzz", names), "");
}

}  // namespace
}  // namespace temper
