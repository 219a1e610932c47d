#pragma once
// metrics.jsonl: one JSON object per line, kind first.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "temper/metrics/sink.h"

namespace temper {

[[nodiscard]] std::string to_json(const TrainRecord& record);
[[nodiscard]] std::string to_json(const ValidationRecord& record);
[[nodiscard]] std::string to_json(const Event& event);

class AppendFile;

class JsonlSink final : public Sink {
 public:
  // `resumed_update`: the run goes on from that update, so lines of later updates and a
  // half-written last line are dropped from the file. Without it a new file is started.
  explicit JsonlSink(const std::filesystem::path& path,
                     std::optional<std::int64_t> resumed_update = std::nullopt);
  ~JsonlSink() override;

  void write(const TrainRecord& record) override;
  void write(const ValidationRecord& record) override;
  void write(const Event& event) override;

 private:
  std::unique_ptr<AppendFile> file_;
};

}  // namespace temper
