#pragma once
// Work on samples in several threads whose results are used in order.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace temper {

// Calls `produce(i)` for 0 ... count - 1 in up to `threads` threads, and `consume(i, result)` in
// the order of i in the calling thread. At most two results a thread are held. The first error in
// that order ends it.
template <typename Produce, typename Consume>
void for_each_in_order(std::size_t count, int threads, const Produce& produce,
                       const Consume& consume) {
  using Result = decltype(produce(std::size_t{}));
  const std::size_t round = 2 * static_cast<std::size_t>(std::max(threads, 1));
  std::vector<Result> results(round);
  std::vector<std::exception_ptr> errors(round);
  for (std::size_t begin = 0; begin < count; begin += round) {
    const std::size_t end = std::min(count, begin + round);
    std::atomic<std::size_t> next{begin};
    const auto work = [&] {
      for (std::size_t i = next.fetch_add(1); i < end; i = next.fetch_add(1)) {
        try {
          results[i - begin] = produce(i);
        } catch (...) {
          errors[i - begin] = std::current_exception();
        }
      }
    };
    {
      std::vector<std::jthread> helpers;
      for (int i = 1; i < threads; ++i) {
        helpers.emplace_back(work);
      }
      work();
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (errors[i - begin]) {
        std::rethrow_exception(errors[i - begin]);
      }
      consume(i, std::move(results[i - begin]));
    }
  }
}

}  // namespace temper
