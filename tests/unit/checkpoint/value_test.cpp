#include "temper/checkpoint/value.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "temper/core/error.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

TEST(Value, DictKeepsTheOrderOfInsertion) {
  ValueDict dict;
  for (const char* key : {"zeta", "alpha", "mid"}) {
    dict[key] = key;
  }
  dict["alpha"] = 2;
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, testing::ElementsAre("zeta", "alpha", "mid"));
  EXPECT_EQ(dict.at("alpha").as_int(), 2);
  EXPECT_EQ(dict.find("beta"), nullptr);
}

TEST(Value, WrongTypeAndMissingKeyAreNamed) {
  const ValueDict dict{{"a", "text"}};
  try {
    static_cast<void>(dict.at("a").as_int());
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "expected int, found string");
  }
  try {
    static_cast<void>(dict.at("b"));
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the entry 'b' is missing");
  }
}

TEST(Value, TextIsNotTakenForABoolean) { EXPECT_EQ(Value("yes").type_name(), "string"); }

TEST(Value, IdenticalSeesEachDifference) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(identical(sample_checkpoint(), sample_checkpoint()));
  EXPECT_TRUE(identical(nan, nan));
  EXPECT_FALSE(identical(0.0, -0.0));
  EXPECT_FALSE(identical(1, 1.0));
  EXPECT_FALSE(identical(at::zeros({2, 3}), at::zeros({3, 2})));
  EXPECT_FALSE(identical(at::zeros({2}), at::zeros({2}, at::kInt)));
  EXPECT_FALSE(identical(at::zeros({2}), at::tensor({0.0F, 1.0F})));
  EXPECT_FALSE(identical(ValueDict{{"a", 1}, {"b", 2}}, ValueDict{{"b", 2}, {"a", 1}}));
  EXPECT_FALSE(identical(ValueList{1}, ValueList{1, 2}));
  EXPECT_TRUE(identical(at::zeros({2, 3}).t(), at::zeros({3, 2})));
}

TEST(Value, TensorsAreVisitedWithTheirPaths) {
  std::vector<std::string> paths;
  for_each_tensor(sample_checkpoint(),
                  [&](const std::string& path, const at::Tensor&) { paths.push_back(path); });
  EXPECT_EQ(paths.size(), 7U);
  EXPECT_EQ(paths.front(), "model/conv1.weight");
  EXPECT_EQ(paths.back(), "optimizer/momentum/0");
}

}  // namespace
}  // namespace temper
