#pragma once
// What lies on the stack of the pickle machine, and the few calls that it knows.

#include <ATen/core/Tensor.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/unpickler.h"
#include "temper/checkpoint/value.h"

namespace temper {

struct PickleObject;
// Owned by the builder: a pickle may refer to an object several times, also from within itself.
using PickleItems = std::vector<PickleObject*>;

struct PickleObject {
  enum class Kind { kLeaf, kTuple, kList, kDict, kGlobal, kStorage };
  Kind kind = Kind::kLeaf;
  Value leaf;
  PickleItems items;                                         // a dict's: key, value, key, value
  std::string name;                                          // a global's, "module.name"
  at::Tensor bytes;                                          // a storage's
  c10::ScalarType scalar_type = c10::ScalarType::Undefined;  // a storage's; undefined: untyped
};

// Throws DataError when `object` is not of the kind, or for a dict's odd count.
void extend(PickleObject& object, PickleObject::Kind kind, const PickleItems& items);

// Throws DataError for objects nested too deeply (or in themselves) and for a lone storage.
[[nodiscard]] Value to_value(const PickleObject& object);

class PickleBuilder {
 public:
  explicit PickleBuilder(const StorageLoader& load_storage) : load_storage_(load_storage) {}

  [[nodiscard]] PickleObject* leaf(Value value);
  [[nodiscard]] PickleObject* sequence(PickleObject::Kind kind, PickleItems items);
  // Throws DataError that names a global which is not on the list of known ones.
  [[nodiscard]] PickleObject* global(const std::string& module, const std::string& name);
  // The storage that a persistent id ("storage", type, key, location, count) names.
  [[nodiscard]] PickleObject* storage(const PickleObject& id);
  // The result of one of the known functions.
  [[nodiscard]] PickleObject* call(const PickleObject& function, const PickleObject& arguments);

 private:
  [[nodiscard]] PickleObject* ordered_dict(const PickleObject& arguments);
  [[nodiscard]] PickleObject* rebuild_tensor(const PickleObject& arguments, c10::ScalarType type);

  const StorageLoader& load_storage_;
  std::deque<PickleObject> objects_;
  std::map<std::string, at::Tensor> storages_;
};

}  // namespace temper
