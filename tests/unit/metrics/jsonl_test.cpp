#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/metrics/jsonl_sink.h"
#include "temper/metrics/metrics_log.h"
#include "unit/metrics/records.h"

namespace temper {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Jsonl, TrainRecordHasTheFieldsOfTheContract) {
  EXPECT_EQ(to_json(train_record(2, 7)),
            R"({"kind":"train","epoch":2,"update":7,"samples":70,"loss":0.5,"clean_loss":0.25,)"
            R"("robust_loss":null,"clean_accuracy":0.75,"adversarial_accuracy":0.5,)"
            R"("learning_rate":0.1,"gradient_norm":0.001,"zero_gradient_samples":3.0,)"
            R"("nonfinite_gradient_samples":null,"images_per_second":100.0,)"
            R"("seconds":{"data":1.0,"attack":2.0,"forward_backward":3.0,"communication":4.0,)"
            R"("optimizer":5.0},"peak_memory_bytes":8589934592})");
}

TEST(Jsonl, ValidationRecordHasTheFieldsOfTheContract) {
  ValidationRecord record = validation_record(1, 5);
  record.clean_accuracy = 0.5;
  record.robust_accuracy = 0.25;
  EXPECT_EQ(to_json(record),
            R"({"kind":"validation","epoch":1,"update":5,"samples":360,"clean_correct":336,)"
            R"("clean_accuracy":0.5,"clean_top5_accuracy":0.99,"robust_correct":219,)"
            R"("robust_accuracy":0.25,"attack":"pgd-20","average":false})");
  EXPECT_THAT(to_json(ValidationRecord{}), Not(HasSubstr("top5")));
  EXPECT_THAT(to_json(ValidationRecord{}),
              HasSubstr(R"("robust_correct":null,"robust_accuracy":null,"attack":null)"));
}

TEST(Jsonl, EventCarriesItsDetails) {
  const Event event{"skipped_update",
                    1,
                    9,
                    {{"reason", "loss is NaN"},
                     {"rank", std::int64_t{1}},
                     {"norm", std::numeric_limits<double>::infinity()}}};
  EXPECT_EQ(to_json(event), R"({"kind":"event","what":"skipped_update","epoch":1,"update":9,)"
                            R"("reason":"loss is NaN","rank":1,"norm":null})");
  EXPECT_THROW(static_cast<void>(to_json(Event{"warning", 0, 0, {{"update", true}}})),
               CheckFailure);
}

TEST(Jsonl, BytesOfAFileNameThatAreNotUtf8DoNotStopTheRun) {
  EXPECT_THAT(to_json(Event{"bad_sample", 0, 0, {{"path", "a\xff.png"}}}),
              HasSubstr("a\xEF\xBF\xBD.png"));
}

TEST(Jsonl, ReadsBackWhatItWrote) {
  const ScratchFolder folder;
  JsonlSink sink(folder / "metrics.jsonl");
  sink.write(Event{"started", 0, 0, {{"world_size", std::int64_t{2}}, {"device", "cpu"}}});
  sink.write(train_record(1, 3));
  sink.write(validation_record(1, 3));
  // Each line is in the file at once.
  const MetricsLog log = read_metrics(folder / "metrics.jsonl");
  ASSERT_EQ(log.train.size(), 1U);
  EXPECT_TRUE(std::isnan(log.train[0].robust_loss));
  EXPECT_EQ(to_json(log.train[0]), to_json(train_record(1, 3)));
  ASSERT_EQ(log.validation.size(), 1U);
  EXPECT_EQ(to_json(log.validation[0]), to_json(validation_record(1, 3)));
  ASSERT_EQ(log.events.size(), 1U);
  EXPECT_EQ(std::get<std::int64_t>(log.events[0].details.at(0).second), 2);
  EXPECT_EQ(std::get<std::string>(log.events[0].details.at(1).second), "cpu");
}

TEST(Jsonl, ResumeDropsLaterLinesAndAHalfWrittenOne) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    JsonlSink sink(path);
    for (int update = 1; update <= 4; ++update) {
      sink.write(train_record(1, update));
    }
  }
  std::ofstream(path, std::ios::app) << R"({"kind":"train","epoch":1,"upda)";
  {
    JsonlSink sink(path, 2);
    sink.write(Event{"resumed", 1, 2, {}});
    sink.write(train_record(1, 3));
  }
  const MetricsLog log = read_metrics(path);
  ASSERT_EQ(log.train.size(), 3U);
  EXPECT_EQ(log.train.back().update, 3);
  EXPECT_EQ(log.events.size(), 1U);
}

TEST(Jsonl, WithoutResumeTheFileStartsAnew) {
  const ScratchFolder folder;
  JsonlSink(folder / "metrics.jsonl").write(train_record(1, 1));
  JsonlSink(folder / "metrics.jsonl").write(train_record(1, 2));
  EXPECT_EQ(read_metrics(folder / "metrics.jsonl").train.size(), 1U);
  JsonlSink(folder / "new.jsonl", 5).write(train_record(1, 6));
  EXPECT_EQ(read_metrics(folder / "new.jsonl").train.size(), 1U);
}

TEST(Jsonl, ABrokenLineIsNamed) {
  const ScratchFolder folder;
  const auto path = folder / "metrics.jsonl";
  write_file_atomically(path, to_json(train_record(1, 1)) + "\nnonsense\n");
  const auto message = [](const auto& action) -> std::string {
    try {
      action();
    } catch (const DataError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message([&] { static_cast<void>(read_metrics(path)); }),
              HasSubstr("metrics.jsonl:2: "));
  EXPECT_THAT(message([&] { JsonlSink sink(path, 7); }), HasSubstr("metrics.jsonl:2: "));
}

TEST(Jsonl, AFolderThatIsMissingIsASystemError) {
  EXPECT_THROW(JsonlSink("/nonexistent/metrics.jsonl"), SystemError);
}

}  // namespace
}  // namespace temper
