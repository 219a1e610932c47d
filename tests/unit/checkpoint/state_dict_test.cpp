#include "temper/checkpoint/state_dict.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/safetensors.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "unit/checkpoint/sample_checkpoint.h"

namespace temper {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::filesystem::path& file, WeightSet weights = WeightSet::kModel) {
  try {
    static_cast<void>(read_state_dict(file, weights));
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

std::vector<std::string> names_of(const Value& file) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", file);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : read_state_dict(folder / "a.pt")) {
    names.push_back(name);
  }
  return names;
}

const std::vector<std::string> kExpected{"conv.weight", "fc.bias"};

ValueDict weights_with(const std::string& prefix) {
  return {{prefix + "conv.weight", at::ones({2})}, {prefix + "fc.bias", at::zeros({3})}};
}

TEST(StateDict, ReadsTheModelOfACheckpoint) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.pt", sample_checkpoint());
  const StateDict state = read_state_dict(folder / "a.pt");
  EXPECT_TRUE(identical(to_dict(state), sample_checkpoint().as_dict().at("model")));
}

TEST(StateDict, ReadsTheAverageOnRequest) {
  const ScratchFolder folder;
  Value checkpoint = sample_checkpoint();
  write_checkpoint(folder / "a.pt", checkpoint);
  EXPECT_THAT(error_of(folder / "a.pt", WeightSet::kAverage),
              AllOf(HasSubstr("a.pt: "), HasSubstr("no weight average")));
  checkpoint.as_dict()["average"] = weights_with("");
  write_checkpoint(folder / "a.pt", checkpoint);
  const StateDict state = read_state_dict(folder / "a.pt", WeightSet::kAverage);
  EXPECT_TRUE(identical(to_dict(state), weights_with("")));
  write_checkpoint(folder / "a.pt", weights_with(""));
  EXPECT_THAT(error_of(folder / "a.pt", WeightSet::kAverage), HasSubstr("no weight average"));
  write_safetensors(folder / "a.pt", to_state_dict(weights_with("")));
  EXPECT_THAT(error_of(folder / "a.pt", WeightSet::kAverage), HasSubstr("no weight average"));
}

TEST(StateDict, FindsWeightsInTheCustomaryPlaces) {
  const Value weights = weights_with("");
  EXPECT_EQ(names_of(weights), kExpected) << "a bare file with our manifest";
  for (const Value& file :
       {Value(ValueDict{{"epoch", 3}, {"state_dict", weights}, {"optimizer", ValueDict{}}}),
        Value(ValueDict{{"model", weights}, {"epoch", 3}}),
        Value(ValueDict{{"model_state_dict", weights}}),
        Value(ValueDict{{"model", ValueDict{{"state_dict", weights}, {"name", "net"}}}}),
        Value(ValueDict{{"state_dict", ValueDict{{"model", weights}}}})}) {
    EXPECT_EQ(names_of(file), kExpected);
  }
}

TEST(StateDict, TakesWrapperPrefixesOffAllNamesOrNone) {
  for (const char* prefix :
       {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "module.module."}) {
    EXPECT_EQ(names_of(weights_with(prefix)), kExpected) << prefix;
  }
  ValueDict mixed = weights_with("module.");
  mixed["scale"] = at::ones({1});
  EXPECT_EQ(names_of(mixed),
            (std::vector<std::string>{"module.conv.weight", "module.fc.bias", "scale"}));
}

TEST(StateDict, TakesThePrefixOffAFileOfPython) {
  const StateDict state = read_state_dict(std::filesystem::path(TEMPER_SOURCE_DIR) /
                                          "tests/unit/checkpoint/data/module_prefix.pt");
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state[0].first, "weight");
  EXPECT_TRUE(at::equal(state[0].second, at::arange(6, at::kFloat).reshape({2, 3})));
  EXPECT_EQ(state[1].first, "bias");
}

TEST(StateDict, KnowsAFileByItsContent) {
  const ScratchFolder folder;
  write_safetensors(folder / "weights.pt", to_state_dict(weights_with("module.")));
  EXPECT_EQ(read_state_dict(folder / "weights.pt").front().first, "conv.weight");
  write_checkpoint(folder / "weights.safetensors", weights_with(""));
  EXPECT_EQ(read_state_dict(folder / "weights.safetensors").front().first, "conv.weight");
}

TEST(StateDict, OtherContentIsRefusedWithAReason) {
  const ScratchFolder folder;
  const auto error_of_bytes = [&](const std::string& bytes) {
    write_file_atomically(folder / "a.pt", bytes);
    return error_of(folder / "a.pt");
  };
  EXPECT_THAT(error_of_bytes("<!DOCTYPE html>"),
              AllOf(HasSubstr("a.pt: "), HasSubstr("neither a file of torch.save nor of safeten")));
  EXPECT_THAT(error_of_bytes(""), HasSubstr("it is empty"));
  EXPECT_THAT(error_of_bytes("\x80\x02\x8a\nl\xfc\x9c"
                             "F\xf9 j"),
              HasSubstr("before 1.6"));
  EXPECT_THAT(error_of_bytes("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS"));
  write_checkpoint(folder / "a.pt", ValueDict{{"epoch", 3}, {"weight", at::ones({1})}});
  EXPECT_THAT(error_of(folder / "a.pt"),
              AllOf(HasSubstr("'epoch' is of type int, not a tensor"), HasSubstr("'state_dict'")));
  write_checkpoint(folder / "a.pt", ValueDict{{"model", ValueDict{{"a", 1}}}});
  EXPECT_THAT(error_of(folder / "a.pt"), HasSubstr("'a' is of type int, not a tensor"));
  write_checkpoint(folder / "a.pt", ValueDict{{"model", ValueDict{}}});
  EXPECT_THAT(error_of(folder / "a.pt"), HasSubstr("holds no tensor"));
  write_checkpoint(folder / "a.pt", at::ones({1}));
  EXPECT_THAT(error_of(folder / "a.pt"), HasSubstr("of type tensor, not a dict of tensors"));
  EXPECT_THROW(static_cast<void>(read_state_dict(folder / "none.pt")), SystemError);
}

}  // namespace
}  // namespace temper
