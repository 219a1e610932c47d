#include "checkpoint/scalar_type.h"

#include <algorithm>

namespace temper {
namespace {

using Type = c10::ScalarType;

constexpr ScalarTypeName kTypes[] = {
    {Type::Float, "float32", "FloatStorage"},
    {Type::Double, "float64", "DoubleStorage"},
    {Type::Half, "float16", "HalfStorage"},
    {Type::BFloat16, "bfloat16", "BFloat16Storage"},
    {Type::Byte, "uint8", "ByteStorage"},
    {Type::Char, "int8", "CharStorage"},
    {Type::Short, "int16", "ShortStorage"},
    {Type::Int, "int32", "IntStorage"},
    {Type::Long, "int64", "LongStorage"},
    {Type::Bool, "bool", "BoolStorage"},
    {Type::ComplexFloat, "complex64", "ComplexFloatStorage"},
    {Type::ComplexDouble, "complex128", "ComplexDoubleStorage"},
    {Type::UInt16, "uint16", ""},
    {Type::UInt32, "uint32", ""},
    {Type::UInt64, "uint64", ""},
    {Type::Float8_e4m3fn, "float8_e4m3fn", ""},
    {Type::Float8_e5m2, "float8_e5m2", ""},
};

template <typename Field, typename Key>
const ScalarTypeName* find(Field field, Key key) {
  const auto* found = std::ranges::find(kTypes, key, field);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

const ScalarTypeName* find_scalar_type(Type type) { return find(&ScalarTypeName::type, type); }

const ScalarTypeName* find_scalar_type_by_name(std::string_view name) {
  return find(&ScalarTypeName::name, name);
}

const ScalarTypeName* find_scalar_type_by_storage(std::string_view storage) {
  return storage.empty() ? nullptr : find(&ScalarTypeName::storage, storage);
}

}  // namespace temper
