#include "temper/checkpoint/container.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_folder.h"
#include "temper/checkpoint/pytorch_file.h"
#include "temper/core/error.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

using testing::HasSubstr;

template <typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

Value round_trip(const Value& value) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", value);
  return read_checkpoint(folder / "a.pt");
}

TEST(Container, RoundTripKeepsEverything) {
  EXPECT_TRUE(identical(round_trip(sample_checkpoint()), sample_checkpoint()));
}

TEST(Container, EveryElementTypeSurvives) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte, at::kChar,
                          at::kShort, at::kInt, at::kLong, at::kBool, at::kComplexFloat}) {
    const Value value = at::arange(5).to(type);
    EXPECT_TRUE(identical(round_trip(value), value)) << c10::toString(type);
  }
}

TEST(Container, ViewsAreStoredAsTheirElements) {
  const at::Tensor base = at::arange(10000, at::kFloat).reshape({10, 10, 10, 10});
  const ValueDict views{{"slice", base.select(0, 3)},
                        {"step", base.slice(1, 1, 9, 3)},
                        {"transposed", base.transpose(0, 2)},
                        {"channels_last", base.contiguous(at::MemoryFormat::ChannelsLast)},
                        {"expanded", at::ones({1}).expand({4})}};
  EXPECT_TRUE(identical(round_trip(views), views));
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", ValueDict{{"slice", base.select(0, 3)}});
  EXPECT_LT(std::filesystem::file_size(folder / "a.pt"), 10000U);
}

TEST(Container, TiedTensorsStayTied) {
  const at::Tensor weight = at::ones({1000});
  const Value read =
      round_trip(ValueDict{{"a", weight}, {"b", weight}, {"c", weight.view({10, 100})}});
  const ValueDict& dict = read.as_dict();
  EXPECT_EQ(dict.at("a").as_tensor().data_ptr(), dict.at("b").as_tensor().data_ptr());
  EXPECT_NE(dict.at("a").as_tensor().data_ptr(), dict.at("c").as_tensor().data_ptr());
}

TEST(Container, ParametersLoseTheirGradientFlag) {
  const Value read = round_trip(at::ones({2}).requires_grad_());
  EXPECT_FALSE(read.as_tensor().requires_grad());
}

TEST(Container, TextThatIsNotUtf8AndUnstorableTensorsAreRefused) {
  const ScratchFolder folder;
  const auto write = [&](const Value& value) { write_checkpoint(folder / "a.pt", value); };
  EXPECT_THAT(message_of([&] {
                write(ValueDict{{"config", "\xff"}});
              }),
              testing::AllOf(HasSubstr("a.pt"), HasSubstr("'config' is not UTF-8")));
  EXPECT_THAT(message_of([&] { write(ValueDict{{"x", at::Tensor()}}); }), HasSubstr("'x'"));
  EXPECT_THAT(message_of([&] {
                write(ValueDict{{"x", at::eye(2).to_sparse()}});
              }),
              HasSubstr("'x'"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Container, MissingFileAndFolderAreSystemErrors) {
  EXPECT_THROW(static_cast<void>(read_checkpoint("/nonexistent/a.pt")), SystemError);
  EXPECT_THROW(write_checkpoint("/nonexistent/a.pt", Value()), SystemError);
}

TEST(Container, AFileOfPyTorchIsNotACheckpoint) {
  const std::filesystem::path file =
      std::filesystem::path(TEMPER_SOURCE_DIR) / "tests/unit/checkpoint/data/module_prefix.pt";
  EXPECT_THAT(message_of([&] { static_cast<void>(read_checkpoint(file)); }),
              testing::AllOf(HasSubstr("module_prefix.pt"), HasSubstr("no manifest.json")));
}

}  // namespace
}  // namespace temper
