#include "temper/checkpoint/value.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "temper/core/error.h"

namespace temper {

ValueDict::ValueDict() = default;
ValueDict::ValueDict(const ValueDict&) = default;
ValueDict::ValueDict(ValueDict&&) noexcept = default;
ValueDict& ValueDict::operator=(const ValueDict&) = default;
ValueDict& ValueDict::operator=(ValueDict&&) noexcept = default;
ValueDict::~ValueDict() = default;

ValueDict::ValueDict(std::initializer_list<Item> items) {
  for (const Item& item : items) {
    (*this)[item.first] = item.second;
  }
}

std::size_t ValueDict::lower_bound(std::string_view key) const {
  const auto position = std::ranges::lower_bound(order_, key, {}, [this](std::uint32_t index) {
    return std::string_view(items_[index].first);
  });
  return static_cast<std::size_t>(position - order_.begin());
}

Value& ValueDict::operator[](std::string_view key) {
  const std::size_t position = lower_bound(key);
  if (position < order_.size() && items_[order_[position]].first == key) {
    return items_[order_[position]].second;
  }
  order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(position),
                static_cast<std::uint32_t>(items_.size()));
  return items_.emplace_back(std::string(key), Value()).second;
}

const Value* ValueDict::find(std::string_view key) const {
  const std::size_t position = lower_bound(key);
  if (position < order_.size() && items_[order_[position]].first == key) {
    return &items_[order_[position]].second;
  }
  return nullptr;
}

const Value& ValueDict::at(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) {
    throw DataError(concat("the entry '", key, "' is missing"));
  }
  return *value;
}

std::size_t ValueDict::size() const { return items_.size(); }
std::vector<ValueDict::Item>::const_iterator ValueDict::begin() const { return items_.begin(); }
std::vector<ValueDict::Item>::const_iterator ValueDict::end() const { return items_.end(); }

namespace {

template <typename T, typename Variant>
auto& get_or_throw(Variant& data, std::string_view expected, std::string_view actual) {
  auto* value = std::get_if<T>(&data);
  if (value == nullptr) {
    throw DataError(concat("expected ", expected, ", found ", actual));
  }
  return *value;
}

}  // namespace

bool Value::as_bool() const { return get_or_throw<bool>(data_, "bool", type_name()); }
std::int64_t Value::as_int() const { return get_or_throw<std::int64_t>(data_, "int", type_name()); }
double Value::as_double() const {
  if (const auto* integer = std::get_if<std::int64_t>(&data_)) {
    return static_cast<double>(*integer);
  }
  return get_or_throw<double>(data_, "double", type_name());
}
const std::string& Value::as_string() const {
  return get_or_throw<std::string>(data_, "string", type_name());
}
const at::Tensor& Value::as_tensor() const {
  return get_or_throw<at::Tensor>(data_, "tensor", type_name());
}
const ValueList& Value::as_list() const {
  return get_or_throw<ValueList>(data_, "list", type_name());
}
const ValueDict& Value::as_dict() const {
  return get_or_throw<ValueDict>(data_, "dict", type_name());
}
ValueDict& Value::as_dict() { return get_or_throw<ValueDict>(data_, "dict", type_name()); }

std::string_view Value::type_name() const {
  static constexpr std::string_view kNames[] = {"null",   "bool",   "int",  "double",
                                                "string", "tensor", "list", "dict"};
  return kNames[data_.index()];
}

namespace {

bool identical_tensors(const at::Tensor& left, const at::Tensor& right) {
  if (left.scalar_type() != right.scalar_type() || left.sizes() != right.sizes()) {
    return false;
  }
  const at::Tensor a = left.contiguous();
  const at::Tensor b = right.contiguous();
  return a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

bool identical_items(const ValueDict::Item& left, const ValueDict::Item& right) {
  return left.first == right.first && identical(left.second, right.second);
}

}  // namespace

bool identical(const Value& left, const Value& right) {
  if (left.type_name() != right.type_name()) {
    return false;
  }
  if (left.holds<at::Tensor>()) {
    return identical_tensors(left.as_tensor(), right.as_tensor());
  }
  if (left.holds<ValueList>()) {
    return std::ranges::equal(left.as_list(), right.as_list(), identical);
  }
  if (left.holds<ValueDict>()) {
    return std::ranges::equal(left.as_dict(), right.as_dict(), identical_items);
  }
  if (left.holds<double>()) {
    return std::bit_cast<std::uint64_t>(left.as_double()) ==
           std::bit_cast<std::uint64_t>(right.as_double());
  }
  if (left.holds<std::string>()) {
    return left.as_string() == right.as_string();
  }
  if (left.holds<std::int64_t>()) {
    return left.as_int() == right.as_int();
  }
  return left.is_null() || left.as_bool() == right.as_bool();
}

namespace {

using TensorVisitor = std::function<void(const std::string&, const at::Tensor&)>;

void visit_tensors(const Value& value, const std::string& path, const TensorVisitor& visit) {
  const auto below = [&path](std::string_view key) {
    return path.empty() ? std::string(key) : concat(path, "/", key);
  };
  if (value.holds<at::Tensor>()) {
    visit(path, value.as_tensor());
  } else if (value.holds<ValueDict>()) {
    for (const auto& [key, entry] : value.as_dict()) {
      visit_tensors(entry, below(key), visit);
    }
  } else if (value.holds<ValueList>()) {
    const ValueList& list = value.as_list();
    for (std::size_t i = 0; i < list.size(); ++i) {
      visit_tensors(list[i], below(std::to_string(i)), visit);
    }
  }
}

}  // namespace

void for_each_tensor(const Value& value, const TensorVisitor& visit) {
  visit_tensors(value, "", visit);
}

}  // namespace temper
