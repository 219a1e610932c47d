#pragma once
// A pickle machine that only builds data.

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <string_view>

#include "temper/checkpoint/value.h"

namespace temper {

// Gives the bytes of a storage, uint8 [n], on the CPU; called once per key.
using StorageLoader = std::function<at::Tensor(const std::string& key)>;

// Throws DataError with the reason for anything but data, damaged or not.
[[nodiscard]] Value unpickle(std::string_view bytes, const StorageLoader& load_storage);

}  // namespace temper
