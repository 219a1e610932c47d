#include "train/numerics_watch.h"

#include <algorithm>
#include <cmath>

#include "temper/core/text.h"

namespace temper {
namespace {

constexpr std::int64_t kWindowUpdates = 20;
constexpr double kSamplesPerClass = 10;  // fewer may all be predicted alike by chance
constexpr std::size_t kWindows = 3;      // without progress
constexpr double kNearChance = 0.02;     // a loss that is not this much below ln(classes)
constexpr double kProgress = 0.003;  // least fall over the windows; both relative to ln(classes)
constexpr double kManyZeroGradients = 0.1;

const char* const kAdvice =
    "try another learning rate; check that threat_model.epsilon and step_size are fractions of 1 "
    "(8/255, not 8), that the labels belong to the images, and that data.normalization fits";

}  // namespace

std::vector<NumericsWarning> NumericsWatch::add(const double* values) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] += values[i];
  }
  const double wanted = kSamplesPerClass * static_cast<double>(classes_);
  if (classes_ == 0 || ++updates_ < kWindowUpdates || sums_[kSampleCount] < wanted) {
    return {};
  }
  std::vector<NumericsWarning> found;
  check_loss(found);
  check_gradients(found);
  std::erase_if(found, [&](const auto& warning) { return !given_.insert(warning.kind).second; });
  sums_.fill(0);
  updates_ = 0;
  return found;
}

void NumericsWatch::check_loss(std::vector<NumericsWarning>& found) {
  const double samples = sums_[kSampleCount];
  const bool clean = !std::isnan(sums_[kCleanLossSum]);
  const double loss = clean ? sums_[kCleanLossSum] / std::max(sums_[kLabelledCount], 1.0)
                            : sums_[kRobustLossSum] / samples;
  const double chance = std::log(static_cast<double>(classes_));
  losses_.push_back(loss);
  if (losses_.size() > kWindows) {
    losses_.erase(losses_.begin());
  }
  const bool at_chance = std::ranges::all_of(
      losses_, [&](double of_window) { return of_window > (1 - kNearChance) * chance; });
  const bool stuck = losses_.size() == kWindows && at_chance &&
                     losses_.front() - losses_.back() < kProgress * chance;
  if (stuck) {
    found.push_back({"loss_at_chance",
                     concat("the ", clean ? "clean" : "adversarial", " loss stays at ",
                            fixed(loss, 4), "; ln(", classes_, ") = ", fixed(chance, 4),
                            " is what guessing gives: the network learns nothing; ", kAdvice)});
  }
  // The variance of integers is exact in double.
  const double spread =
      samples * sums_[kPredictionSquareSum] - sums_[kPredictionSum] * sums_[kPredictionSum];
  if (spread == 0) {
    const double predicted = std::round(sums_[kPredictionSum] / samples);
    found.push_back(
        {"constant_predictions",
         concat("all of the last ", samples, " training images were predicted as class ", predicted,
                ": the network may be dead; ", kAdvice)});
  }
}

void NumericsWatch::check_gradients(std::vector<NumericsWarning>& found) const {
  const double samples = sums_[kSampleCount];
  const double zero = sums_[kZeroGradientSum];
  if (zero > kManyZeroGradients * samples) {
    found.push_back(
        {"zero_gradients",
         concat("the attack met a zero gradient at ", zero, " of ", samples,
                " images and could not move them: robust accuracy may be overstated (gradient "
                "masking), or the network is saturated or dead")});
  }
  if (sums_[kNonfiniteGradientSum] > 0) {
    found.push_back({"nonfinite_gradients",
                     concat("the attack met a gradient that is not finite at ",
                            sums_[kNonfiniteGradientSum], " of ", samples,
                            " images; it left them where they were. Try a smaller learning rate or "
                            "training.gradient_clip")});
  }
}

}  // namespace temper
