#include "recipe/resume_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temper/core/error.h"

namespace temper {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> changes(const std::string& before, const std::string& now) {
  std::vector<std::string> out;
  for (const ConfigChange& change : config_changes(before, now)) {
    out.push_back(concat(change.key, ": ", change.before, " -> ", change.now));
  }
  return out;
}

TEST(ConfigChanges, NameEachKeyWithBothValues) {
  const std::string before =
      "run:\n  name: a\n  seed: 0\nmethod:\n  attack:\n    steps: 10\n    step_size: 1/255\n"
      "  beta: 6\n";
  const std::string now =
      "run:\n  name: a\n  seed: 1\nmethod:\n  attack:\n    steps: 7\n    step_size: 1/255\n"
      "  beta: 6\n";
  EXPECT_THAT(changes(before, now),
              testing::ElementsAre("method.attack.steps: 10 -> 7", "run.seed: 0 -> 1"));
  EXPECT_TRUE(changes(before, before).empty());
}

TEST(ConfigChanges, NameKeysThatOnlyOneSideHas) {
  EXPECT_THAT(changes("model:\n  weights: null\n", "model:\n  weights:\n    path: a:b\n"),
              testing::ElementsAre("model.weights.path:  -> a:b"));
}

const ResumeKey kKey{.data_fingerprint = "aa", .seed = 1, .global_batch_size = 128};

std::string message(const ResumeKey& now, const std::vector<std::string>& allowed) {
  const Value checkpoint(
      ValueDict{{"data_fingerprint", "aa"}, {"seed", 1}, {"global_batch_size", 128}});
  try {
    check_resume("last.pt", checkpoint, now, allowed);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ResumeRules, AcceptTheSame) { EXPECT_EQ(message(kKey, {}), "accepted"); }

TEST(ResumeRules, RefuseAllDifferencesAtOnce) {
  const std::string text =
      message({.data_fingerprint = "bb", .seed = 2, .global_batch_size = 64}, {});
  EXPECT_THAT(text, HasSubstr("data with the index hash aa, now it is bb"));
  EXPECT_THAT(text, HasSubstr("run.seed 1, now it is 2"));
  EXPECT_THAT(text, HasSubstr("a global batch size of 128, now it is 64"));
  EXPECT_THAT(text, HasSubstr("--allow-change data --allow-change run.seed --allow-change "
                              "training.global_batch_size"));
}

TEST(ResumeRules, AcceptWhatIsAllowedByNameAndNothingElse) {
  const ResumeKey now{.data_fingerprint = "aa", .seed = 2, .global_batch_size = 64};
  EXPECT_EQ(message(now, {"run.seed", "training.global_batch_size"}), "accepted");
  const std::string text = message(now, {"run.seed", "data"});
  EXPECT_THAT(text, HasSubstr("global batch"));
  EXPECT_THAT(text, Not(HasSubstr("run.seed 1")));
}

TEST(ResumeRules, KnowTheNamesThatMayBeAllowed) {
  EXPECT_NO_THROW(check_allowed_changes({"data", "run.seed", "training.global_batch_size"}));
  EXPECT_THROW(check_allowed_changes({"optimizer.learning_rate"}), ConfigError);
}

}  // namespace
}  // namespace temper
