#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "support/scratch_folder.h"
#include "temper/core/file.h"
#include "temper/metrics/tensorboard_sink.h"
#include "unit/metrics/records.h"

namespace temper {
namespace {

std::uint32_t unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return (rotated >> 17) | (rotated << 15);
}

// RFC 3720, appendix B.4.
TEST(TensorBoard, ChecksumGivesThePublishedValues) {
  EXPECT_EQ(unmask(masked_crc32c(std::string(32, '\0'))), 0x8a9136aaU);
  EXPECT_EQ(unmask(masked_crc32c(std::string(32, '\xff'))), 0x62a8ab43U);
  EXPECT_EQ(unmask(masked_crc32c("123456789")), 0xe3069283U);
}

// The lengths of the records; each one's checksums are verified.
std::vector<std::string> records_of(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  std::vector<std::string> records;
  std::size_t position = 0;
  const auto take_sum = [&](std::string_view data) {
    std::uint32_t sum = 0;
    std::memcpy(&sum, bytes.data() + position, sizeof(sum));
    position += sizeof(sum);
    EXPECT_EQ(sum, masked_crc32c(data));
  };
  while (position + 16 <= bytes.size()) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + position, sizeof(length));
    position += sizeof(length);
    take_sum(std::string_view(bytes).substr(position - sizeof(length), sizeof(length)));
    records.push_back(bytes.substr(position, length));
    position += length;
    take_sum(records.back());
  }
  EXPECT_EQ(position, bytes.size());
  return records;
}

TEST(TensorBoard, WritesFramedRecordsAtOnce) {
  const ScratchFolder folder;
  TensorBoardSink sink(folder / "tensorboard");
  EXPECT_THAT(sink.path().filename().string(), testing::StartsWith("events.out.tfevents."));
  sink.write(train_record(1, 3));
  sink.write(validation_record(1, 3));
  const auto records = records_of(sink.path());
  ASSERT_EQ(records.size(), 3U);
  EXPECT_THAT(records[0], testing::HasSubstr("brain.Event:2"));
  EXPECT_THAT(records[1], testing::HasSubstr("train/loss"));
  EXPECT_THAT(records[1], testing::Not(testing::HasSubstr("train/robust_loss")));  // it is NaN
  EXPECT_THAT(records[2], testing::HasSubstr("validation/robust_accuracy"));
}

TEST(TensorBoard, EachProcessHasAFileOfItsOwn) {
  const ScratchFolder folder;
  const TensorBoardSink first(folder.path());
  const TensorBoardSink second(folder.path(), 7);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(records_of(second.path()).size(), 2U);
}

}  // namespace
}  // namespace temper
