#include "temper/recipe/export_weights.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "temper/checkpoint/container.h"
#include "temper/checkpoint/safetensors.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/recipe/build.h"
#include "temper/recipe/load_config.h"

namespace temper {
namespace {

enum class Format { kPyTorch, kSafetensors };

Format format_of(const std::filesystem::path& target) {
  const std::string ending = target.extension().string();
  if (ending == ".pt" || ending == ".pth") {
    return Format::kPyTorch;
  }
  if (ending == ".safetensors") {
    return Format::kSafetensors;
  }
  throw ConfigError(
      concat("--export ", target.string(), ": the name must end in .pt, .pth or .safetensors"));
}

// The normalisation of the run; nothing when the file holds weights alone, or a configuration that
// another version wrote.
std::optional<Normalization> recorded_normalization(const std::string& config) {
  if (config.empty()) {
    return std::nullopt;
  }
  try {
    return build_normalization(read_normalization(config));
  } catch (const ConfigError& error) {
    log_warning("the checkpoint's configuration cannot be read: ", error.what());
    return std::nullopt;
  }
}

std::string list_text(const std::vector<double>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) {
    texts.push_back(to_text(value));
  }
  return concat("[", join(texts, ", "), "]");
}

std::string normalization_text(const std::optional<Normalization>& normalization) {
  if (!normalization) {
    return "images: normalise them as in training; the file does not say how";
  }
  if (normalization->mean.empty()) {
    return "images: pixels in [0,1] go in as they are (data.normalization: none)";
  }
  return concat("images: pixels in [0,1], normalised first by (pixels - mean) / std with mean ",
                list_text(normalization->mean), ", std ", list_text(normalization->std));
}

struct Written {
  std::size_t tensors = 0;
  std::uintmax_t bytes = 0;
  std::int64_t values = 0;
};

std::string report_text(const WeightExport& request, Format format, const Written& written,
                        const std::optional<Normalization>& normalization, bool has_other_average) {
  const std::string target = request.target.string();
  const std::string load =
      format == Format::kPyTorch
          ? concat("torch.load(\"", target, "\", map_location=\"cpu\", weights_only=True)")
          : concat("safetensors.torch.load_file(\"", target, "\")");
  return concat("wrote ", target, ": ", written.tensors, " tensors, ", written.values, " values, ",
                fixed(static_cast<double>(written.bytes) / 1e6, 1), " MB, the ",
                request.weights == WeightSet::kAverage ? "weight average" : "weights", " of ",
                request.checkpoint.string(),
                has_other_average ? " (it also holds their average: --average)" : "",
                "\npython: model.load_state_dict(", load, ")\n", normalization_text(normalization),
                "\n");
}

std::string report_json(const WeightExport& request, const Written& written,
                        const std::optional<Normalization>& normalization) {
  nlohmann::ordered_json document;
  document["file"] = request.target.string();
  document["checkpoint"] = request.checkpoint.string();
  document["average"] = request.weights == WeightSet::kAverage;
  document["tensors"] = written.tensors;
  document["values"] = written.values;
  document["bytes"] = written.bytes;
  document["normalization"] = nullptr;
  if (normalization) {
    document["normalization"] = {{"mean", normalization->mean}, {"std", normalization->std}};
  }
  return document.dump() + "\n";
}

Written write(const WeightExport& request, Format format, const StateDict& state) {
  if (format == Format::kPyTorch) {
    write_checkpoint(request.target, to_dict(state));
  } else {
    write_safetensors(request.target, state);
  }
  Written written{.tensors = state.size(), .bytes = std::filesystem::file_size(request.target)};
  for (const auto& [name, tensor] : state) {
    written.values += tensor.numel();
  }
  return written;
}

}  // namespace

std::string export_weights(const WeightExport& request) {
  const Format format = format_of(request.target);
  std::error_code ignored;  // of files that are not there
  if (std::filesystem::equivalent(request.checkpoint, request.target, ignored)) {
    throw ConfigError(concat("--export ", request.target.string(),
                             ": this is the checkpoint itself; give another name"));
  }
  try {
    const WeightFile file = read_weight_file(request.checkpoint, request.weights);
    const Written written = write(request, format, file.weights);
    const auto normalization = recorded_normalization(file.config);
    return request.json ? report_json(request, written, normalization)
                        : report_text(request, format, written, normalization,
                                      file.has_average && request.weights == WeightSet::kModel);
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  } catch (const SystemError& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace temper
