#pragma once
// Looks at the sums of training for signs that nothing is learnt.

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "train/update_summary.h"

namespace temper {

struct NumericsWarning {
  std::string kind{};  // loss_at_chance, constant_predictions, zero_gradients, nonfinite_gradients
  std::string text{};  // what was seen, and advice
};

// Works on windows of updates that are long enough not to be fooled by chance; gives each kind of
// warning once. Decides from sums over all ranks, so it decides alike on each.
class NumericsWatch {
 public:
  // `classes`: 0 switches it off.
  explicit NumericsWatch(std::int64_t classes) : classes_(classes) {}

  // `values`: the reduced summary of an applied update.
  [[nodiscard]] std::vector<NumericsWarning> add(const double* values);

 private:
  void check_loss(std::vector<NumericsWarning>& found);
  void check_gradients(std::vector<NumericsWarning>& found) const;

  std::int64_t classes_;
  std::array<double, kFieldCount> sums_{};
  std::int64_t updates_ = 0;      // of the window
  std::vector<double> losses_{};  // of the last windows
  std::set<std::string> given_;
};

}  // namespace temper
