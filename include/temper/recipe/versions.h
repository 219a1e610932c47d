#pragma once
// What this program was built from.

#include <string>
#include <utility>
#include <vector>

namespace temper {

// Name and version of Temper, its source revision, LibTorch, CUDA, cuDNN, NCCL and the compiler, in
// that order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> versions();

}  // namespace temper
