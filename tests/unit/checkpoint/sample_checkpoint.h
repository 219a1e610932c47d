#pragma once
// A small checkpoint with every type of value.

#include <ATen/ATen.h>

#include <limits>

#include "temper/checkpoint/value.h"

namespace temper {

inline Value sample_checkpoint() {
  const at::Tensor weight = at::arange(24, at::kFloat).reshape({2, 3, 2, 2});
  ValueDict model{{"conv1.weight", weight},
                  {"bn1.running_var", at::full({3}, 0.1, at::kDouble)},
                  {"bn1.num_batches_tracked", at::full({}, 1234567890123, at::kLong)},
                  {"half", at::arange(3, at::kFloat).to(at::kHalf)},
                  {"mask", at::arange(2).to(at::kBool)},
                  {"empty", at::empty({0, 4})}};
  return ValueDict{{"format_version", 1},
                   {"model", model},
                   {"average", Value()},
                   {"optimizer", ValueDict{{"momentum", ValueList{weight.neg(), 0.9}}}},
                   {"progress", ValueDict{{"samples", std::int64_t{1} << 40},
                                          {"epoch", -3},
                                          {"best", std::numeric_limits<double>::infinity()},
                                          {"done", false}}},
                   {"config", "name: \"\xc3\xa9t\xc3\xa9\"\n"}};
}

}  // namespace temper
