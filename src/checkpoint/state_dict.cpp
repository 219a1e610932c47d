#include "temper/checkpoint/state_dict.h"

#include <algorithm>

#include "checkpoint/archive.h"
#include "checkpoint/file_io.h"
#include "checkpoint/file_reader.h"
#include "temper/core/error.h"

namespace temper {
namespace {

// Left by Python's wrappers for several devices and for compilation.
constexpr std::string_view kWrapperPrefixes[] = {"module.", "_orig_mod."};
// Where training scripts in Python customarily put the weights.
constexpr std::string_view kCustomaryKeys[] = {"state_dict", "model", "model_state_dict"};

bool strip_prefix(StateDict& state, std::string_view prefix) {
  const bool is_wrapped = std::ranges::all_of(
      state, [&](const auto& entry) { return entry.first.starts_with(prefix); });
  if (!is_wrapped) {
    return false;
  }
  for (auto& [name, tensor] : state) {
    name.erase(0, prefix.size());
  }
  return true;
}

// Wrappers may be nested in any order.
void strip_wrapper_prefixes(StateDict& state) {
  while (std::ranges::any_of(
      kWrapperPrefixes, [&](std::string_view prefix) { return strip_prefix(state, prefix); })) {
  }
}

const ValueDict* customary_entry(const ValueDict& dict) {
  for (const std::string_view key : kCustomaryKeys) {
    const Value* nested = dict.find(key);
    if (nested != nullptr && nested->holds<ValueDict>()) {
      return &nested->as_dict();
    }
  }
  return nullptr;
}

// The dict of weights in a file of PyTorch: the whole file, or a customary entry, or one of that.
const ValueDict& find_weights(const Value& file) {
  if (!file.holds<ValueDict>()) {
    throw DataError(concat("it is of type ", file.type_name(), ", not a dict of tensors"));
  }
  const ValueDict* weights = &file.as_dict();
  for (int level = 0; level < 2; ++level) {
    const ValueDict* nested = customary_entry(*weights);
    weights = nested != nullptr ? nested : weights;
  }
  if (weights == &file.as_dict()) {
    for (const auto& [name, value] : *weights) {
      if (!value.holds<at::Tensor>()) {
        throw DataError(concat("'", name, "' is of type ", value.type_name(), ", not a tensor; ",
                               "weights are looked for at the top and under 'state_dict', 'model' ",
                               "and 'model_state_dict'"));
      }
    }
  }
  return *weights;
}

std::string text_of(const ValueDict& checkpoint, const std::string& key) {
  const Value* text = checkpoint.find(key);
  return text != nullptr ? text->as_string() : "";
}

const Value* average_of(const ValueDict& checkpoint) {
  const Value* average = checkpoint.find("average");
  return average != nullptr && !average->is_null() ? average : nullptr;
}

const ValueDict& find_weights(const ValueDict& checkpoint, WeightSet weights) {
  if (weights == WeightSet::kModel) {
    return checkpoint.at("model").as_dict();
  }
  const Value* average = average_of(checkpoint);
  if (average == nullptr) {
    throw DataError("it has no weight average: training.weight_average was not set");
  }
  return average->as_dict();
}

bool is_training_checkpoint(const Value& file) {
  return file.holds<ValueDict>() && file.as_dict().contains("format_version");
}

WeightFile read_archive(const std::filesystem::path& path, WeightSet weights) {
  const ArchiveReader archive(path);
  const bool is_verified = archive.contains(kManifestRecord);
  const Value file = is_verified ? read_verified(archive) : read_plain(archive);
  if (is_verified && is_training_checkpoint(file)) {
    const ValueDict& checkpoint = file.as_dict();
    return {.weights = to_state_dict(find_weights(checkpoint, weights)),
            .config = text_of(checkpoint, "config"),
            .validation_fingerprint = text_of(checkpoint, "validation_fingerprint"),
            .has_average = average_of(checkpoint) != nullptr};
  }
  if (weights == WeightSet::kAverage) {
    throw DataError("it holds weights alone and no weight average");
  }
  return {to_state_dict(find_weights(file))};
}

enum class FileKind { kArchive, kSafetensors };

FileKind recognise(const FileReader& file) {
  constexpr std::uint64_t kBytesShown = 40;
  const std::string start = file.read_at(0, std::min(file.size(), kBytesShown));
  constexpr std::size_t kSafetensorsHeader = 8;
  if (start.starts_with("PK")) {
    return FileKind::kArchive;
  }
  if (start.size() > kSafetensorsHeader && start[kSafetensorsHeader] == '{') {
    return FileKind::kSafetensors;
  }
  std::string reason = "it is neither a file of torch.save nor of safetensors";
  if (start.empty()) {
    reason = "it is empty";
  } else if (start.starts_with('\x80')) {
    reason += "; files of PyTorch before 1.6 must be saved again with a newer one";
  } else if (start.starts_with("version https://git-lfs")) {
    reason += " but a pointer of Git LFS; fetch the file itself with 'git lfs pull'";
  }
  throw DataError(reason);
}

WeightFile read_any(const std::filesystem::path& path, WeightSet weights) {
  const FileReader file(path);
  if (recognise(file) == FileKind::kArchive) {
    return read_archive(path, weights);
  }
  if (weights == WeightSet::kAverage) {
    throw DataError("it holds weights alone and no weight average");
  }
  return {read_tensors(file)};
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

WeightFile read_weight_file(const std::filesystem::path& path, WeightSet weights) {
  return with_file_name(path, [&] {
    WeightFile file = read_any(path, weights);
    if (file.weights.empty()) {
      throw DataError("it holds no tensor");
    }
    strip_wrapper_prefixes(file.weights);
    return file;
  });
}

StateDict read_state_dict(const std::filesystem::path& path, WeightSet weights) {
  return read_weight_file(path, weights).weights;
}

}  // namespace temper
