#include "temper/core/units.h"

#include <gtest/gtest.h>

#include "temper/core/error.h"

namespace temper {
namespace {

TEST(Units, NumbersMayBeRational) {
  EXPECT_EQ(parse_number("8/255"), 8.0 / 255.0);
  EXPECT_EQ(parse_number(" 5e-4 "), 5e-4);
  EXPECT_EQ(parse_number("-1 / 4"), -0.25);
  for (const char* bad : {"", "x", "1/0", "1/", "1 2", "nan", "inf", "1/2/3"}) {
    EXPECT_THROW(static_cast<void>(parse_number(bad)), ConfigError) << bad;
  }
}

TEST(Units, PeriodsNeedAUnit) {
  EXPECT_EQ(parse_period("5ep"), (Period{5, Period::Unit::kEpochs}));
  EXPECT_EQ(parse_period("2000up"), (Period{2000, Period::Unit::kUpdates}));
  EXPECT_EQ(parse_period("1Msa"), (Period{1e6, Period::Unit::kSamples}));
  EXPECT_EQ(to_text(parse_period("0.5ep")), "0.5ep");
  for (const char* bad : {"5", "5x", "-1ep", "ep", ""}) {
    EXPECT_THROW(static_cast<void>(parse_period(bad)), ConfigError) << bad;
  }
}

TEST(Units, DurationsMayHaveSeveralParts) {
  using std::chrono::milliseconds;
  EXPECT_EQ(parse_duration("30s"), milliseconds(30'000));
  EXPECT_EQ(parse_duration("10min"), milliseconds(600'000));
  EXPECT_EQ(parse_duration("11h30m"), milliseconds(41'400'000));
  EXPECT_EQ(to_text(parse_duration("90s")), "90s");
  EXPECT_EQ(to_text(parse_duration("10min")), "10min");
  for (const char* bad : {"30", "5y", "", "s", "-1s"}) {
    EXPECT_THROW(static_cast<void>(parse_duration(bad)), ConfigError) << bad;
  }
}

TEST(Units, SizesNeedAUnit) {
  EXPECT_EQ(parse_byte_size("4GiB").bytes, std::uint64_t{4} << 30);
  EXPECT_EQ(parse_byte_size("1.5kB").bytes, 1500U);
  EXPECT_EQ(to_text(parse_byte_size("4GiB")), "4GiB");
  for (const char* bad : {"4", "4G", "GiB", "-1B"}) {
    EXPECT_THROW(static_cast<void>(parse_byte_size(bad)), ConfigError) << bad;
  }
}

}  // namespace
}  // namespace temper
