#pragma once
// Names of element types in files.

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>

namespace temper {

struct ScalarTypeName {
  c10::ScalarType type;
  std::string_view name;     // as in torch.float32
  std::string_view storage;  // as in torch.FloatStorage; empty: newer than the typed storages
};

// Null pointer for a type that has no plain bytes, such as a quantized one.
[[nodiscard]] const ScalarTypeName* find_scalar_type(c10::ScalarType type);
[[nodiscard]] const ScalarTypeName* find_scalar_type_by_name(std::string_view name);
[[nodiscard]] const ScalarTypeName* find_scalar_type_by_storage(std::string_view storage);

}  // namespace temper
