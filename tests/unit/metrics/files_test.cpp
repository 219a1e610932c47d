#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scratch_folder.h"
#include "temper/core/file.h"
#include "temper/core/text.h"
#include "temper/metrics/csv_sink.h"
#include "temper/metrics/jsonl_sink.h"
#include "temper/metrics/metrics_log.h"
#include "temper/metrics/status_file.h"
#include "unit/metrics/records.h"

namespace temper {
namespace {

using testing::HasSubstr;
using testing::Not;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Three updates of epoch 1 (10 and 20 samples), its validation, one update of epoch 2.
void write_run(Sink& sink) {
  TrainRecord record = train_record(1, 1);
  record.loss = 1;
  sink.write(record);
  record = train_record(1, 3);
  record.loss = 4;
  record.learning_rate = 0.05;
  sink.write(record);
  sink.write(validation_record(1, 3));
  sink.write(train_record(2, 4));
  sink.write(Event{"finished", 2, 4, {}});
}

TEST(Csv, OneRowPerEpochWithMeansBySamples) {
  const ScratchFolder folder;
  CsvSink sink(folder / "epochs.csv");
  write_run(sink);
  const auto lines = split(read_file(folder / "epochs.csv"), '\n');
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(std::string(lines[0]).substr(0, 20), "epoch,update,samples");
  EXPECT_EQ(std::string(lines[1]),
            concat("1,3,30,3,0.25,,0.75,0.5,0.05,100,", 336.0 / 360, ",", 219.0 / 360, ",360,0"));
  EXPECT_EQ(std::string(lines[2]), "2,4,40,0.5,0.25,,0.75,0.5,0.1,100,,,,");
  for (const auto& line : {lines[0], lines[1], lines[2]}) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 13);
  }
}

TEST(Csv, ReplayGivesTheSameFile) {
  const ScratchFolder folder;
  CsvSink direct(folder / "a.csv");
  JsonlSink jsonl(folder / "metrics.jsonl");
  write_run(direct);
  write_run(jsonl);
  CsvSink replayed(folder / "b.csv");
  replay_metrics(folder / "metrics.jsonl", replayed);
  EXPECT_EQ(read_file(folder / "a.csv"), read_file(folder / "b.csv"));
}

TEST(Status, SaysWhatTheRunDoes) {
  const ScratchFolder folder;
  ManualClock clock;
  StatusFile status(folder / "status.json", {.epochs = 10, .updates = 100}, 2s, clock.clock());
  status.write(Event{"started", 0, 0, {}});
  EXPECT_THAT(read_file(folder / "status.json"), HasSubstr("\"eta_seconds\": null"));
  status.write(train_record(1, 10));
  clock.advance(5s);
  status.write(train_record(2, 20));
  const std::string text = read_file(folder / "status.json");
  for (const char* part :
       {"\"state\": \"running\"", "\"epoch\": 2", "\"epochs\": 10", "\"update\": 20",
        "\"updates\": 100", "\"images_per_second\": 100.0", "\"eta_seconds\": 40.0"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  status.write(Event{"finished", 10, 100, {}});
  EXPECT_THAT(read_file(folder / "status.json"), HasSubstr("\"state\": \"finished\""));
  EXPECT_THAT(read_file(folder / "status.json"), HasSubstr("\"eta_seconds\": null"));
}

TEST(Status, IsNotRewrittenMoreOftenThanTheInterval) {
  const ScratchFolder folder;
  ManualClock clock;
  StatusFile status(folder / "status.json", {.epochs = 1, .updates = 100}, 2s, clock.clock());
  status.write(train_record(1, 1));
  clock.advance(1999ms);
  status.write(train_record(1, 2));
  EXPECT_THAT(read_file(folder / "status.json"), HasSubstr("\"update\": 1,"));
  clock.advance(1ms);
  status.write(train_record(1, 3));
  EXPECT_THAT(read_file(folder / "status.json"), HasSubstr("\"update\": 3,"));
}

TEST(Status, ListPassesRecordsOn) {
  const ScratchFolder folder;
  SinkList list;
  list.add(std::make_unique<CsvSink>(folder / "epochs.csv"));
  list.add(std::make_unique<JsonlSink>(folder / "metrics.jsonl"));
  write_run(list);
  EXPECT_TRUE(std::filesystem::exists(folder / "epochs.csv"));
  const MetricsLog log = read_metrics(folder / "metrics.jsonl");
  EXPECT_EQ(log.train.size(), 3U);
  EXPECT_EQ(log.validation.size(), 1U);
  EXPECT_EQ(log.events.size(), 1U);
}

}  // namespace
}  // namespace temper
