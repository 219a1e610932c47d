#pragma once
// A value as a pickle (protocol 2) that Python's restricted unpickler accepts.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "temper/checkpoint/value.h"

namespace temper {

struct StoredTensor {
  std::string name;         // the path in the value
  std::size_t storage = 0;  // position in Pickle::storages, the key of its record
};

struct Pickle {
  std::string bytes;
  std::vector<StoredTensor> tensors;  // every tensor, in order
  std::vector<at::Tensor> storages;   // each different tensor once, as given
};

// Throws DataError for a tensor that cannot be stored and for text that is not UTF-8.
[[nodiscard]] Pickle make_pickle(const Value& value);

}  // namespace temper
