#include "temper/metrics/tensorboard_sink.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <concepts>

#include "metrics/append_file.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // reflected
constexpr std::uint32_t kMaskDelta = 0xa282ead8;
constexpr std::uint64_t kSessionStart = 1;

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? kCastagnoli : 0);
    }
    table[i] = crc;
  }
  return table;
}

template <std::unsigned_integral T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
  return bytes;
}

// Protocol buffer fields: a key of number and wire type, then the value.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(static_cast<unsigned char>(value | 0x80));
  }
  return bytes + static_cast<char>(static_cast<unsigned char>(value));
}
std::string key(unsigned number, unsigned wire_type) { return varint((number << 3) | wire_type); }
std::string integer_field(unsigned number, std::uint64_t value) {
  return key(number, 0) + varint(value);
}
std::string double_field(unsigned number, double value) {
  return key(number, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string bytes_field(unsigned number, std::string_view value) {
  return concat(key(number, 2), varint(value.size()), value);
}
std::string float_field(unsigned number, float value) {
  return key(number, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}

double wall_time() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return now.count();
}

// An Event message; `content` holds its one field besides time and step.
std::string event_message(std::int64_t step, std::string_view content) {
  return concat(double_field(1, wall_time()), integer_field(2, static_cast<std::uint64_t>(step)),
                content);
}

std::string tf_record(std::string_view message) {
  const std::string length = little_endian(std::uint64_t{message.size()});
  return concat(length, little_endian(masked_crc32c(length)), message,
                little_endian(masked_crc32c(message)));
}

// A Summary of scalars; values that are not finite leave a gap in the curve.
class ScalarSummary {
 public:
  void add(std::string_view tag, double value) {
    if (std::isfinite(value)) {
      bytes_ +=
          bytes_field(1, concat(bytes_field(1, tag), float_field(2, static_cast<float>(value))));
    }
  }
  [[nodiscard]] std::string record(std::int64_t step) const {
    return tf_record(event_message(step, bytes_field(5, bytes_)));
  }

 private:
  std::string bytes_;
};

std::filesystem::path new_event_file(const std::filesystem::path& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) {
    throw SystemError(concat("cannot make the folder ", folder.string()), code.value());
  }
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) {
    throw_errno("cannot get the host's name");
  }
  const std::string seconds = std::to_string(static_cast<std::int64_t>(wall_time()));
  for (int i = 0;; ++i) {
    const std::filesystem::path path =
        folder / concat("events.out.tfevents.", seconds, ".", std::string_view(host.data()), ".",
                        ::getpid(), ".", i);
    if (!std::filesystem::exists(path)) {
      return path;
    }
  }
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  static constexpr std::array<std::uint32_t, 256> kTable = make_crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char byte : data) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  return std::rotr(~crc, 15) + kMaskDelta;
}

TensorBoardSink::TensorBoardSink(const std::filesystem::path& folder,
                                 std::optional<std::int64_t> resumed_update)
    : path_(new_event_file(folder)),
      file_(std::make_unique<AppendFile>(path_, AppendFile::Start::kEmpty)) {
  file_->append(tf_record(event_message(0, bytes_field(3, "brain.Event:2"))));
  if (resumed_update) {
    const std::string start = bytes_field(7, integer_field(1, kSessionStart));
    file_->append(tf_record(event_message(*resumed_update + 1, start)));
  }
}

TensorBoardSink::~TensorBoardSink() = default;

void TensorBoardSink::write(const TrainRecord& record) {
  ScalarSummary summary;
  summary.add("train/loss", record.loss);
  summary.add("train/clean_loss", record.clean_loss);
  summary.add("train/robust_loss", record.robust_loss);
  summary.add("train/clean_accuracy", record.clean_accuracy);
  summary.add("train/adversarial_accuracy", record.adversarial_accuracy);
  summary.add("train/learning_rate", record.learning_rate);
  summary.add("train/gradient_norm", record.gradient_norm);
  summary.add("speed/images_per_second", record.images_per_second);
  summary.add("speed/seconds_data", record.seconds.data);
  summary.add("speed/seconds_attack", record.seconds.attack);
  summary.add("speed/seconds_forward_backward", record.seconds.forward_backward);
  summary.add("speed/seconds_communication", record.seconds.communication);
  summary.add("speed/seconds_optimizer", record.seconds.optimizer);
  summary.add("speed/peak_memory_bytes", static_cast<double>(record.peak_memory_bytes));
  file_->append(summary.record(record.update));
}

void TensorBoardSink::write(const ValidationRecord& record) {
  const std::string group = record.average ? "validation_average/" : "validation/";
  ScalarSummary summary;
  summary.add(group + "clean_accuracy", record.clean_accuracy);
  summary.add(group + "clean_top5_accuracy", record.clean_top5_accuracy.value_or(kNotANumber));
  summary.add(group + "robust_accuracy", record.robust_accuracy.value_or(kNotANumber));
  file_->append(summary.record(record.update));
}

void TensorBoardSink::write(const Event& /*event*/) {}

}  // namespace temper
