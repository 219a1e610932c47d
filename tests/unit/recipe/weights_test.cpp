// Weights into a model of a configuration and out of a checkpoint.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_folder.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/safetensors.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/models/model_state.h"
#include "temper/recipe/build.h"
#include "temper/recipe/export_weights.h"

namespace temper {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Config digits(std::int64_t classes) {
  Config config;
  config.run.seed = 5;
  config.data.channels = 1;
  config.data.image_size = 8;
  config.data.classes = classes;
  config.data.normalization.preset = "none";
  config.model.architecture = "digits_cnn";
  return config;
}

class Weights : public testing::Test {
 protected:
  // A model of ten classes, every element 2.
  Weights() {
    const auto model = build_architecture(digits(10), {});
    for (const auto& [name, tensor] : state_dict(*model)) {
      state.emplace_back(name, at::full_like(tensor, 2));
    }
    write_safetensors(file, state);
  }

  [[nodiscard]] Config starting_from_file(std::int64_t classes) const {
    Config config = digits(classes);
    config.model.initial_weights = file.string();
    return config;
  }

  template <typename Action>
  std::string error_of(const Action& action) {
    try {
      action();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  ScratchFolder folder;
  std::filesystem::path file = folder / "ten.safetensors";
  StateDict state;
};

TEST_F(Weights, IgnoredPartsAreDrawnFromTheSeedAndTheRestIsTheFile) {
  Config config = starting_from_file(3);
  config.model.ignore_initial = {"fc2"};
  std::string line;
  const auto model = build_model(config, {}, {}, &line);
  const auto drawn = build_model(digits(3), {}, {});
  for (const auto& item : drawn->named_parameters()) {
    const at::Tensor& actual = model->named_parameters()[item.key()];
    EXPECT_TRUE(
        at::equal(actual, item.key().starts_with("fc2.") ? item.value() : at::full_like(actual, 2)))
        << item.key();
  }
  EXPECT_EQ(line, concat("initial weights: ", state.size() - 2, " of ", state.size(),
                         " tensors from ", file.string(), "; drawn anew: fc2.weight, fc2.bias"));
}

TEST_F(Weights, WholeFilesAreTakenWhole) {
  std::string line;
  const auto model = build_model(starting_from_file(10), {}, {}, &line);
  EXPECT_EQ(model->named_parameters()["fc2.bias"].min().item<double>(), 2);
  EXPECT_EQ(line, concat("initial weights: ", state.size(), " of ", state.size(), " tensors from ",
                         file.string()));
}

TEST_F(Weights, AnotherNumberOfClassesNamesTheWayOut) {
  Config config = starting_from_file(3);
  const auto build = [&] { static_cast<void>(build_model(config, {}, {})); };
  EXPECT_THAT(error_of(build),
              AllOf(HasSubstr("fc2.weight [10, "), HasSubstr("for another number of classes set "
                                                             "model.ignore_initial: [fc2]")));
  config.model.ignore_initial = {"bn1"};
  EXPECT_THAT(error_of(build), HasSubstr("set model.ignore_initial: [bn1, fc2]"));
  config.model.ignore_initial = {"fc2", "fc3"};
  EXPECT_THAT(error_of(build), AllOf(HasSubstr("has a 'fc3'"), HasSubstr("did you mean 'fc1'?")));
  config.model.initial_weights = (folder / "none.pt").string();
  EXPECT_THAT(error_of(build), HasSubstr("none.pt: No such file"));
}

TEST_F(Weights, ExportTakesTheModelOrItsAverage) {
  const StateDict average{{"w", at::zeros({2})}};
  const Value checkpoint = ValueDict{
      {"format_version", 1},
      {"model", to_dict(state)},
      {"average", to_dict(average)},
      {"config", "data:\n  normalization:\n    mean: [0.5]\n    std: [0.25]\nlater: 1\n"}};
  const std::filesystem::path path = folder / "last.pt";
  write_checkpoint(path, checkpoint);
  for (const char* name : {"out.pt", "out.pth", "out.safetensors"}) {
    const std::string text = export_weights({.checkpoint = path, .target = folder / name});
    EXPECT_THAT(text, AllOf(HasSubstr(concat(state.size(), " tensors")),
                            HasSubstr("the weights of"), HasSubstr("mean [0.5], std [0.25]")));
    EXPECT_EQ(read_state_dict(folder / name).size(), state.size());
    EXPECT_THAT(export_weights(
                    {.checkpoint = path, .target = folder / name, .weights = WeightSet::kAverage}),
                HasSubstr("1 tensors, 2 values"));
    EXPECT_TRUE(identical(to_dict(read_state_dict(folder / name)), to_dict(average)));
  }
  EXPECT_THAT(export_weights({.checkpoint = file, .target = folder / "out.pt"}),
              HasSubstr("the file does not say how"));
}

TEST_F(Weights, ExportsThatCannotBeLeaveTheTargetAlone) {
  const std::filesystem::path target = folder / "out.pt";
  write_file_atomically(target, "old");
  const auto error_of_export = [&](const WeightExport& request) {
    return error_of([&] { static_cast<void>(export_weights(request)); });
  };
  EXPECT_THAT(error_of_export({.checkpoint = file, .target = folder / "out.onnx"}),
              HasSubstr("must end in"));
  EXPECT_THAT(error_of_export({.checkpoint = folder / "none.pt", .target = target}),
              HasSubstr("No such file"));
  EXPECT_THAT(
      error_of_export({.checkpoint = file, .target = target, .weights = WeightSet::kAverage}),
      HasSubstr("no weight average"));
  EXPECT_THAT(error_of_export({.checkpoint = file, .target = file}), HasSubstr("itself"));
  EXPECT_EQ(read_file(target), "old");
}

}  // namespace
}  // namespace temper
