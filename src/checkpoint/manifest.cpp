#include "checkpoint/manifest.h"

#include <nlohmann/json.hpp>

#include "checkpoint/archive.h"
#include "checkpoint/scalar_type.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kManifestVersion = 1;
constexpr std::string_view kSumField = ",\"manifest_crc32\":";

RecordSum parse_sum(const Json& json) {
  return {json.at("bytes").get<std::uint64_t>(), json.at("crc32").get<std::uint32_t>()};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += concat(text.size() > 1 ? ", " : "", size);
  }
  return text + "]";
}

}  // namespace

TensorEntry describe_tensor(const std::string& name, const at::Tensor& tensor) {
  const ScalarTypeName* type = find_scalar_type(tensor.scalar_type());
  require(type != nullptr, "no name for the type of ", name);
  return {name, std::string(type->name), tensor.sizes().vec(), "", {}};
}

std::string to_json(const Manifest& manifest) {
  Json tensors = Json::array();
  for (const TensorEntry& entry : manifest.tensors) {
    tensors.push_back({{"name", entry.name},
                       {"dtype", entry.dtype},
                       {"shape", entry.shape},
                       {"record", entry.record},
                       {"bytes", entry.sum.bytes},
                       {"crc32", entry.sum.crc32}});
  }
  const Json json = {
      {"manifest_version", kManifestVersion},
      {"pickle", {{"bytes", manifest.pickle.bytes}, {"crc32", manifest.pickle.crc32}}},
      {"tensors", tensors}};
  std::string text = json.dump();
  text.pop_back();  // the closing brace
  return concat(text, kSumField, crc32_of(text), "}");
}

Manifest parse_manifest(const std::string& text) {
  const std::size_t end = text.rfind(kSumField);
  if (end == std::string::npos ||
      text.substr(end) != concat(kSumField, crc32_of(std::string_view(text).substr(0, end)), "}")) {
    throw DataError("the checksum of manifest.json is wrong: it is damaged");
  }
  try {
    const Json json = Json::parse(text);
    if (json.at("manifest_version") != kManifestVersion) {
      throw DataError("its manifest is of another version: it was written by a newer Temper");
    }
    Manifest manifest;
    manifest.pickle = parse_sum(json.at("pickle"));
    for (const Json& entry : json.at("tensors")) {
      manifest.tensors.push_back({entry.at("name"), entry.at("dtype"), entry.at("shape"),
                                  entry.at("record"), parse_sum(entry)});
    }
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    throw DataError(concat("manifest.json cannot be read: ", error.what()));
  }
}

void check_tensors(const Manifest& manifest, const Value& value) {
  std::size_t index = 0;
  for_each_tensor(value, [&](const std::string& name, const at::Tensor& tensor) {
    if (index == manifest.tensors.size()) {
      throw DataError(concat("the tensor '", name, "' is not in manifest.json"));
    }
    const TensorEntry& expected = manifest.tensors[index++];
    const TensorEntry actual = describe_tensor(name, tensor);
    if (actual.name != expected.name) {
      throw DataError(concat("the tensor '", expected.name, "' of manifest.json is missing; '",
                             name, "' stands in its place"));
    }
    if (actual.shape != expected.shape || actual.dtype != expected.dtype) {
      throw DataError(concat("the tensor '", name, "' is ", actual.dtype, " ",
                             shape_text(actual.shape), ", manifest.json says ", expected.dtype, " ",
                             shape_text(expected.shape)));
    }
  });
  if (index != manifest.tensors.size()) {
    throw DataError(
        concat("the tensor '", manifest.tensors[index].name, "' of manifest.json is missing"));
  }
}

}  // namespace temper
