#pragma once
// Scalars for TensorBoard: an event file of TFRecords (length, masked CRC-32C, protobuf message)
// with a small encoder of its own. The step of a point is the update.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "temper/metrics/sink.h"

namespace temper {

// CRC-32C (Castagnoli) as TFRecord masks it.
[[nodiscard]] std::uint32_t masked_crc32c(std::string_view data);

class AppendFile;

class TensorBoardSink final : public Sink {
 public:
  // Makes `folder` and a new event file in it. `resumed_update` hides points of later updates that
  // an interrupted process wrote.
  explicit TensorBoardSink(const std::filesystem::path& folder,
                           std::optional<std::int64_t> resumed_update = std::nullopt);
  ~TensorBoardSink() override;

  void write(const TrainRecord& record) override;
  void write(const ValidationRecord& record) override;
  void write(const Event& event) override;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace temper
