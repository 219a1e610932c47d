#include "checkpoint/pickle_object.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <optional>

#include "checkpoint/scalar_type.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using Kind = PickleObject::Kind;

constexpr int kMaxDepth = 64;
constexpr std::int64_t kMaxNodes = 4'000'000;  // lists that repeat each other grow exponentially

constexpr std::string_view kUntypedStorage = "torch.storage.UntypedStorage";
constexpr std::array<std::string_view, 8> kFunctions = {
    "collections.OrderedDict",
    "torch.Size",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch.device"};

// "FloatStorage" of "torch.FloatStorage"; empty for another module.
std::string_view name_in_torch(std::string_view global) {
  constexpr std::string_view kPrefix = "torch.";
  return global.starts_with(kPrefix) ? global.substr(kPrefix.size()) : std::string_view();
}

bool is_known(std::string_view global) {
  const std::string_view name = name_in_torch(global);
  return std::ranges::find(kFunctions, global) != kFunctions.end() || global == kUntypedStorage ||
         find_scalar_type_by_storage(name) != nullptr || find_scalar_type_by_name(name) != nullptr;
}

class Converter {
 public:
  Value convert(const PickleObject& object, int depth) {
    if (depth > kMaxDepth || ++nodes_ > kMaxNodes) {
      throw DataError("its data is nested too deeply");
    }
    switch (object.kind) {
      case Kind::kLeaf:
        return object.leaf;
      case Kind::kTuple:
      case Kind::kList: {
        ValueList list;
        list.reserve(object.items.size());
        for (const PickleObject* item : object.items) {
          list.push_back(convert(*item, depth + 1));
        }
        return list;
      }
      case Kind::kDict:
        return convert_dict(object, depth);
      case Kind::kGlobal:
        if (find_scalar_type_by_name(name_in_torch(object.name)) != nullptr) {
          return object.name;  // a dtype as a value
        }
        throw DataError(concat("it holds '", object.name, "' itself, which is not data"));
      case Kind::kStorage:
        throw DataError("it holds a bare storage; save tensors instead");
    }
    throw DataError("its pickle is damaged");
  }

 private:
  Value convert_dict(const PickleObject& object, int depth) {
    ValueDict dict;
    for (std::size_t i = 0; i < object.items.size(); i += 2) {
      const Value key = convert(*object.items[i], depth + 1);
      if (!key.holds<std::string>() && !key.holds<std::int64_t>()) {
        throw DataError(concat("a dict has a key of type ", key.type_name(),
                               "; only text and integers are read"));
      }
      dict[key.holds<std::string>() ? key.as_string() : std::to_string(key.as_int())] =
          convert(*object.items[i + 1], depth + 1);
    }
    return dict;
  }

  std::int64_t nodes_ = 0;
};

const PickleObject& argument(const PickleObject& arguments, std::size_t index, Kind kind) {
  if (arguments.kind != Kind::kTuple || index >= arguments.items.size() ||
      arguments.items[index]->kind != kind) {
    throw DataError("its pickle calls a function with the wrong arguments");
  }
  return *arguments.items[index];
}

std::vector<std::int64_t> numbers(const PickleObject& tuple) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < tuple.items.size(); ++i) {
    out.push_back(argument(tuple, i, Kind::kLeaf).leaf.as_int());
    if (out.back() < 0) {
      throw DataError("a tensor has a negative size or stride");
    }
  }
  return out;
}

// One more than the last element that a view reaches; empty when that overflows.
std::optional<std::int64_t> extent(std::int64_t offset, const std::vector<std::int64_t>& sizes,
                                   const std::vector<std::int64_t>& strides) {
  std::int64_t last = offset;
  std::int64_t count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t step = 0;
    if (__builtin_mul_overflow(std::max<std::int64_t>(sizes[i] - 1, 0), strides[i], &step) ||
        __builtin_add_overflow(last, step, &last) ||
        __builtin_mul_overflow(count, sizes[i], &count)) {
      return std::nullopt;
    }
  }
  return count == 0 ? offset : last + 1;
}

}  // namespace

PickleObject* PickleBuilder::leaf(Value value) {
  PickleObject& object = objects_.emplace_back();
  object.leaf = std::move(value);
  return &object;
}

PickleObject* PickleBuilder::sequence(Kind kind, PickleItems items) {
  PickleObject& object = objects_.emplace_back();
  object.kind = kind;
  object.items = std::move(items);
  return &object;
}

PickleObject* PickleBuilder::global(const std::string& module, const std::string& name) {
  PickleObject& object = objects_.emplace_back();
  object.kind = Kind::kGlobal;
  object.name = concat(module, ".", name);
  if (!is_known(object.name)) {
    throw DataError(concat("it needs the Python object '", object.name,
                           "', which is not read for safety: only dicts, lists, tensors, numbers ",
                           "and text are; save model.state_dict() alone"));
  }
  return &object;
}

void extend(PickleObject& object, Kind kind, const PickleItems& items) {
  if (object.kind != kind || (kind == Kind::kDict && items.size() % 2 != 0)) {
    throw DataError("its pickle adds items to something that cannot hold them");
  }
  object.items.insert(object.items.end(), items.begin(), items.end());
}

Value to_value(const PickleObject& object) { return Converter().convert(object, 0); }

PickleObject* PickleBuilder::storage(const PickleObject& id) {
  if (argument(id, 0, Kind::kLeaf).leaf.as_string() != "storage") {
    throw DataError("its pickle refers to something else than a storage");
  }
  PickleObject& object = objects_.emplace_back();
  object.kind = Kind::kStorage;
  const std::string& type_name = argument(id, 1, Kind::kGlobal).name;
  std::int64_t item_size = 1;
  if (type_name != kUntypedStorage) {
    const ScalarTypeName* type = find_scalar_type_by_storage(name_in_torch(type_name));
    if (type == nullptr) {
      throw DataError(concat("'", type_name, "' is not a storage"));
    }
    object.scalar_type = type->type;
    item_size = static_cast<std::int64_t>(c10::elementSize(type->type));
  }
  const std::string& key = argument(id, 2, Kind::kLeaf).leaf.as_string();
  auto found = storages_.find(key);
  if (found == storages_.end()) {
    found = storages_.emplace(key, load_storage_(key)).first;
  }
  object.bytes = found->second;
  std::int64_t expected = 0;
  if (__builtin_mul_overflow(argument(id, 4, Kind::kLeaf).leaf.as_int(), item_size, &expected) ||
      expected != object.bytes.numel()) {
    throw DataError(concat("the storage '", key, "' has another size than stated"));
  }
  return &object;
}

PickleObject* PickleBuilder::rebuild_tensor(const PickleObject& arguments, c10::ScalarType type) {
  const PickleObject& storage = argument(arguments, 0, Kind::kStorage);
  if (type == c10::ScalarType::Undefined) {
    throw DataError("a tensor has no type");
  }
  const std::int64_t offset = argument(arguments, 1, Kind::kLeaf).leaf.as_int();
  const auto sizes = numbers(argument(arguments, 2, Kind::kTuple));
  const auto strides = numbers(argument(arguments, 3, Kind::kTuple));
  const auto item_size = static_cast<std::int64_t>(c10::elementSize(type));
  if (offset < 0 || offset > storage.bytes.numel() / item_size || sizes.size() != strides.size()) {
    throw DataError("a tensor's shape is damaged");
  }
  const std::optional<std::int64_t> needed = extent(offset, sizes, strides);
  if (!needed || *needed > storage.bytes.numel() / item_size) {
    throw DataError("a tensor reaches beyond its storage");
  }
  at::Tensor tensor = at::empty({0}, at::TensorOptions().dtype(type));
  tensor.set_(storage.bytes.storage(), offset, sizes, strides);
  return leaf(tensor);
}

PickleObject* PickleBuilder::ordered_dict(const PickleObject& arguments) {
  PickleObject* dict = sequence(Kind::kDict, {});
  if (arguments.items.empty()) {
    return dict;
  }
  for (const PickleObject* pair : argument(arguments, 0, Kind::kList).items) {
    extend(*dict, Kind::kDict, pair->items);
  }
  return dict;
}

PickleObject* PickleBuilder::call(const PickleObject& function, const PickleObject& arguments) {
  if (function.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) {
    throw DataError("its pickle calls something that is not a function");
  }
  const std::string& name = function.name;
  if (name == "collections.OrderedDict") {
    return ordered_dict(arguments);
  }
  if (name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2") {
    return rebuild_tensor(arguments, argument(arguments, 0, Kind::kStorage).scalar_type);
  }
  if (name == "torch._utils._rebuild_tensor_v3") {
    const auto* type =
        find_scalar_type_by_name(name_in_torch(argument(arguments, 6, Kind::kGlobal).name));
    return rebuild_tensor(arguments, type == nullptr ? c10::ScalarType::Undefined : type->type);
  }
  if (name.starts_with("torch._utils._rebuild_parameter")) {
    return leaf(argument(arguments, 0, Kind::kLeaf).leaf.as_tensor());
  }
  if (name == "torch.Size") {
    return sequence(Kind::kTuple, argument(arguments, 0, Kind::kTuple).items);
  }
  if (name == "torch.device") {
    return leaf(argument(arguments, 0, Kind::kLeaf).leaf.as_string());
  }
  throw DataError(concat("its pickle calls '", name, "', which is not a function"));
}

}  // namespace temper
