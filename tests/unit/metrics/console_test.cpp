#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "temper/core/error.h"
#include "temper/metrics/console_sink.h"
#include "unit/metrics/records.h"

namespace temper {
namespace {

using testing::HasSubstr;
using testing::Not;
using std::chrono_literals::operator""s;

constexpr RunLength kLength{.epochs = 10, .updates = 100};

TEST(Console, OneLinePerInterval) {
  std::ostringstream out;
  ManualClock clock;
  ConsoleSink sink(out, ProgressMode::kLines, kLength, 30s, clock.clock());
  for (int update = 1; update <= 61; ++update) {
    sink.write(train_record(1, update));
    clock.advance(1s);
  }
  const std::string text = out.str();
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_THAT(text, HasSubstr("epoch 1/10  update 31/100  loss 0.5000  clean 75.00 %  adversarial "
                              "50.00 %  100 images/s  ETA 69s\n"));
}

TEST(Console, LongRestIsShownInHoursAndMinutes) {
  std::ostringstream out;
  ManualClock clock;
  ConsoleSink sink(out, ProgressMode::kLines, kLength, 30s, clock.clock());
  sink.write(train_record(1, 1));
  clock.advance(150s);
  sink.write(train_record(1, 2));
  clock.advance(1850s);
  sink.write(train_record(1, 51));
  EXPECT_THAT(out.str(), HasSubstr("ETA 4h5min\n"));
  EXPECT_THAT(out.str(), HasSubstr("ETA 33min\n"));
}

TEST(Console, BarRedrawsItsLine) {
  std::ostringstream out;
  ManualClock clock;
  ConsoleSink sink(out, ProgressMode::kBar, kLength, 30s, clock.clock());
  sink.write(train_record(5, 50));
  EXPECT_THAT(out.str(), testing::StartsWith("\repoch 5/10 [##########..........]"));
  sink.write(validation_record(5, 50));
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 1);
  EXPECT_THAT(out.str(), testing::EndsWith("\repoch 5: clean accuracy 93.33 %, robust accuracy "
                                           "60.83 % (pgd-20), 360 samples\n"));
}

TEST(Console, TableShowsTheBestAndTheLast) {
  std::ostringstream out;
  ManualClock clock;
  ConsoleSink sink(out, ProgressMode::kOff, kLength, 30s, clock.clock());
  for (int epoch = 1; epoch <= 15; ++epoch) {
    ValidationRecord record = validation_record(epoch, epoch);
    record.robust_accuracy = epoch == 3 ? 0.75 : 0.5;
    sink.write(record);
  }
  EXPECT_EQ(out.str(), "");
  sink.write(Event{"finished", 15, 15, {}});
  EXPECT_EQ(std::ranges::count(out.str(), '\n'), 12);
  EXPECT_THAT(out.str(), HasSubstr("     3         3         93.33 %         75.00 %  best\n"));
  EXPECT_THAT(out.str(), HasSubstr("\n    15        15 "));
  EXPECT_THAT(out.str(), Not(HasSubstr("\n     5 ")));
}

TEST(Console, ModesAreParsedAndResolved) {
  EXPECT_EQ(parse_progress_mode("bar"), ProgressMode::kBar);
  EXPECT_THROW(static_cast<void>(parse_progress_mode("loud")), ConfigError);
  EXPECT_EQ(resolve_progress_mode(ProgressMode::kAuto, -1), ProgressMode::kLines);
  EXPECT_EQ(resolve_progress_mode(ProgressMode::kOff, -1), ProgressMode::kOff);
}

}  // namespace
}  // namespace temper
