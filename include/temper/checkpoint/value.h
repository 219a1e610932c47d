#pragma once
// What a checkpoint holds: a tree of dicts and lists with tensors, numbers, text and null at the
// leaves. Dicts keep the order in which keys were added, as Python's do. Values are copied like
// containers; a copy shares its tensors.

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace temper {

class Value;
using ValueList = std::vector<Value>;

class ValueDict {
 public:
  using Item = std::pair<std::string, Value>;

  ValueDict();
  ValueDict(std::initializer_list<Item> items);
  ValueDict(const ValueDict&);
  ValueDict(ValueDict&&) noexcept;
  ValueDict& operator=(const ValueDict&);
  ValueDict& operator=(ValueDict&&) noexcept;
  ~ValueDict();

  // The value of `key`; a missing key is added at the end with a null.
  Value& operator[](std::string_view key);
  // Null pointer when the key is missing.
  [[nodiscard]] const Value* find(std::string_view key) const;
  // Throws DataError that names the missing key.
  [[nodiscard]] const Value& at(std::string_view key) const;
  [[nodiscard]] bool contains(std::string_view key) const { return find(key) != nullptr; }
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] bool empty() const { return size() == 0; }

  [[nodiscard]] std::vector<Item>::const_iterator begin() const;
  [[nodiscard]] std::vector<Item>::const_iterator end() const;

 private:
  std::vector<Item> items_;
  // Positions of the items by key, sorted; a model has hundreds of names.
  std::vector<std::uint32_t> order_;

  [[nodiscard]] std::size_t lower_bound(std::string_view key) const;
};

class Value {
 public:
  Value() = default;  // null
  template <typename Bool>
    requires std::same_as<Bool, bool>
  Value(Bool value) : data_(value) {}  // NOLINT: values convert implicitly, as in Python
  template <typename Int>
    requires(std::integral<Int> && !std::same_as<Int, bool>)
  Value(Int value) : data_(static_cast<std::int64_t>(value)) {}  // NOLINT
  Value(double value) : data_(value) {}                          // NOLINT
  Value(std::string value) : data_(std::move(value)) {}          // NOLINT
  Value(std::string_view value) : data_(std::string(value)) {}   // NOLINT
  Value(const char* value) : data_(std::string(value)) {}        // NOLINT
  Value(at::Tensor value) : data_(std::move(value)) {}           // NOLINT
  Value(ValueList value) : data_(std::move(value)) {}            // NOLINT
  Value(ValueDict value) : data_(std::move(value)) {}            // NOLINT

  [[nodiscard]] bool is_null() const { return holds<std::monostate>(); }
  template <typename T>
  [[nodiscard]] bool holds() const {
    return std::holds_alternative<T>(data_);
  }

  // Each throws DataError with the expected and the actual type. as_double accepts an integer.
  [[nodiscard]] bool as_bool() const;
  [[nodiscard]] std::int64_t as_int() const;
  [[nodiscard]] double as_double() const;
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] const at::Tensor& as_tensor() const;
  [[nodiscard]] const ValueList& as_list() const;
  [[nodiscard]] const ValueDict& as_dict() const;
  [[nodiscard]] ValueDict& as_dict();

  // "null", "bool", "int", "double", "string", "tensor", "list" or "dict".
  [[nodiscard]] std::string_view type_name() const;

 private:
  std::variant<std::monostate, bool, std::int64_t, double, std::string, at::Tensor, ValueList,
               ValueDict>
      data_;
};

// Equal trees: same order of keys, same types, doubles and tensors equal bit for bit (so that NaN
// equals itself), tensors of the same shape and dtype. Tensors must be on the CPU.
[[nodiscard]] bool identical(const Value& left, const Value& right);

// Calls `visit` for each tensor in order, with its path: keys and list positions joined by '/'.
void for_each_tensor(const Value& value,
                     const std::function<void(const std::string& path, const at::Tensor&)>& visit);

}  // namespace temper
