#pragma once
// Training data with further data behind them.

#include <memory>
#include <string>
#include <vector>

#include "temper/data/dataset.h"

namespace temper {

// The samples of `first`, then those of `second`, which keep their labels or have kNoLabel.
class Joined final : public Dataset {
 public:
  // Throws ConfigError when channels or element types differ, or with labels when the second has
  // other classes: names that are not the numbers 0, 1, ... must be those of the first.
  Joined(std::shared_ptr<const Dataset> first, std::shared_ptr<const Dataset> second,
         bool second_is_labelled);

  [[nodiscard]] std::span<const std::int64_t> labels() const override { return labels_; }
  [[nodiscard]] std::span<const std::string> class_names() const override {
    return first_->class_names();
  }
  [[nodiscard]] int channels() const override { return first_->channels(); }
  [[nodiscard]] ElementType element_type() const override { return first_->element_type(); }
  [[nodiscard]] std::uint64_t fingerprint() const override;
  [[nodiscard]] std::string sample_name(std::size_t index) const override;
  [[nodiscard]] std::string local_name(std::size_t index) const override;
  [[nodiscard]] std::optional<std::uint64_t> offset(std::size_t index) const override;
  [[nodiscard]] std::uint64_t held_bytes() const override {
    return first_->held_bytes() + second_->held_bytes();
  }
  void check_storage() const override;
  [[nodiscard]] StoredSample read(std::size_t index, Buffer& buffer) const override;
  [[nodiscard]] std::uint64_t stored_size(std::size_t index) const override;
  [[nodiscard]] SampleInfo describe(std::size_t index) const override;

 private:
  struct Place {
    const Dataset& dataset;
    std::size_t index;
  };
  [[nodiscard]] Place place(std::size_t index) const;

  std::shared_ptr<const Dataset> first_;
  std::shared_ptr<const Dataset> second_;
  std::vector<std::int64_t> labels_;
};

}  // namespace temper
