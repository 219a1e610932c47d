#pragma once
// Loads samples for one thread and decides what becomes of bad ones.

#include <cstddef>
#include <exception>
#include <memory>

#include "data/batch_ring.h"
#include "data/sample_loader.h"
#include "temper/data/loader.h"

namespace temper {

// A sample to load, and what a reader has made of it if one has taken it.
struct SampleTask {
  SampleWork work;
  std::unique_ptr<FetchedSample> sample{};  // null: not read
  std::exception_ptr error{};               // of the reader
  SampleCost cost{};
};

class SampleWorker {
 public:
  SampleWorker(const SampleLoaderParts& parts, const LoaderOptions& options)
      : dataset_(parts.dataset), options_(options), loader_(parts) {}

  // Writes the sample's pixels, or those of the one that replaces it; adds to task.cost.
  [[nodiscard]] SampleOutcome run(SampleTask& task, std::byte* out);

 private:
  void replace(const SampleWork& work, std::byte* out, SampleOutcome& outcome);
  [[nodiscard]] SampleRandom random_of(const SampleWork& work, Purpose purpose) const {
    return {RandomStream{.seed = options_.seed, .purpose = purpose, .index = work.epoch},
            work.sample};
  }

  const Dataset& dataset_;
  const LoaderOptions& options_;
  SampleLoader loader_;
};

}  // namespace temper
