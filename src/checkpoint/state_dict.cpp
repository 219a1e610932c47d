#include "temper/checkpoint/state_dict.h"

#include <algorithm>

#include "checkpoint/archive.h"
#include "checkpoint/file_reader.h"
#include "temper/core/error.h"

namespace temper {
namespace {

constexpr std::string_view kWrapperPrefix = "module.";

void strip_wrapper_prefix(StateDict& state) {
  const bool is_wrapped = std::ranges::all_of(
      state, [](const auto& entry) { return entry.first.starts_with(kWrapperPrefix); });
  if (!state.empty() && is_wrapped) {
    for (auto& [name, tensor] : state) {
      name.erase(0, kWrapperPrefix.size());
    }
  }
}

// The dict of weights in a file of PyTorch: the whole file or one of the customary entries.
const ValueDict& find_weights(const Value& file) {
  if (!file.holds<ValueDict>()) {
    throw DataError(concat("it is of type ", file.type_name(), ", not a dict of tensors"));
  }
  for (const std::string_view key : {"state_dict", "model"}) {
    const Value* nested = file.as_dict().find(key);
    if (nested != nullptr && nested->holds<ValueDict>()) {
      return nested->as_dict();
    }
  }
  return file.as_dict();
}

const ValueDict& find_weights(const Value& checkpoint, WeightSet weights) {
  const char* key = weights == WeightSet::kModel ? "model" : "average";
  if (!checkpoint.as_dict().at(key).holds<ValueDict>()) {
    throw DataError(concat("the checkpoint holds no weights under '", key, "'"));
  }
  return checkpoint.as_dict().at(key).as_dict();
}

StateDict read_weights(const ArchiveReader& archive, WeightSet weights) {
  if (archive.contains(kManifestRecord)) {
    const Value checkpoint = read_verified(archive);
    return to_state_dict(find_weights(checkpoint, weights));
  }
  if (weights == WeightSet::kAverage) {
    throw DataError("it is a file of PyTorch, which has no weight average");
  }
  const Value file = read_plain(archive);
  return to_state_dict(find_weights(file));
}

}  // namespace

StateDict to_state_dict(const ValueDict& dict) {
  StateDict state;
  for (const auto& [name, value] : dict) {
    if (!value.holds<at::Tensor>()) {
      throw DataError(concat("'", name, "' is of type ", value.type_name(), ", not a tensor"));
    }
    state.emplace_back(name, value.as_tensor());
  }
  return state;
}

ValueDict to_dict(const StateDict& state) {
  ValueDict dict;
  for (const auto& [name, tensor] : state) {
    dict[name] = tensor;
  }
  return dict;
}

StateDict read_state_dict(const std::filesystem::path& path, WeightSet weights) {
  return with_file_name(path, [&] {
    StateDict state = read_weights(ArchiveReader(path), weights);
    if (state.empty()) {
      throw DataError("it holds no tensor");
    }
    strip_wrapper_prefix(state);
    return state;
  });
}

}  // namespace temper
