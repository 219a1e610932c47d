#pragma once
// A data set whose reading can be stopped from outside.

#include <functional>
#include <memory>

#include "temper/data/dataset.h"
#include "temper/data/tool.h"

namespace temper {

// As the other one, but read() throws ToolInterrupted once `stop` says so.
class Interruptible final : public Dataset {
 public:
  Interruptible(std::unique_ptr<Dataset> inner, std::function<bool()> stop)
      : inner_(std::move(inner)), stop_(std::move(stop)) {}

  [[nodiscard]] std::span<const std::int64_t> labels() const override { return inner_->labels(); }
  [[nodiscard]] std::span<const std::string> class_names() const override {
    return inner_->class_names();
  }
  [[nodiscard]] int channels() const override { return inner_->channels(); }
  [[nodiscard]] ElementType element_type() const override { return inner_->element_type(); }
  [[nodiscard]] std::uint64_t fingerprint() const override { return inner_->fingerprint(); }
  [[nodiscard]] std::string sample_name(std::size_t index) const override {
    return inner_->sample_name(index);
  }
  [[nodiscard]] std::string local_name(std::size_t index) const override {
    return inner_->local_name(index);
  }
  [[nodiscard]] std::optional<std::uint64_t> offset(std::size_t index) const override {
    return inner_->offset(index);
  }
  [[nodiscard]] std::uint64_t held_bytes() const override { return inner_->held_bytes(); }
  void check_storage() const override { inner_->check_storage(); }
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override {
    if (stop_ && stop_()) {
      throw ToolInterrupted("interrupted: nothing was written");
    }
    return inner_->read(index, buffer);
  }
  [[nodiscard]] std::uint64_t stored_size(std::size_t index) const override {
    return inner_->stored_size(index);
  }
  [[nodiscard]] SampleInfo describe(std::size_t index) const override {
    return inner_->describe(index);
  }

 private:
  std::unique_ptr<Dataset> inner_;
  std::function<bool()> stop_;
};

}  // namespace temper
