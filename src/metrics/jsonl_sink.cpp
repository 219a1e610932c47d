#include "temper/metrics/jsonl_sink.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "metrics/append_file.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// NaN and infinity become null; bytes that are not UTF-8, as in a file's name, are replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The lines that belong to the run up to `update`, complete ones only.
std::string lines_until(const std::filesystem::path& path, std::int64_t update) {
  const std::string text = read_file(path);
  std::string kept;
  for (std::size_t begin = 0, end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    const std::string line = text.substr(begin, end - begin);
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("update") || !json["update"].is_number_integer()) {
      throw DataError(concat(path.string(), ":", std::ranges::count(kept, '\n') + 1,
                             ": the line is not a record of a run"));
    }
    if (json["update"].get<std::int64_t>() <= update) {
      kept += line + '\n';
    }
  }
  return kept;
}

}  // namespace

std::string to_json(const TrainRecord& record) {
  const PhaseSeconds& seconds = record.seconds;
  return dump({{"kind", "train"},
               {"epoch", record.epoch},
               {"update", record.update},
               {"samples", record.samples},
               {"loss", record.loss},
               {"clean_loss", record.clean_loss},
               {"robust_loss", record.robust_loss},
               {"clean_accuracy", record.clean_accuracy},
               {"adversarial_accuracy", record.adversarial_accuracy},
               {"learning_rate", record.learning_rate},
               {"gradient_norm", record.gradient_norm},
               {"zero_gradient_samples", record.zero_gradient_samples},
               {"nonfinite_gradient_samples", record.nonfinite_gradient_samples},
               {"images_per_second", record.images_per_second},
               {"seconds",
                {{"data", seconds.data},
                 {"attack", seconds.attack},
                 {"forward_backward", seconds.forward_backward},
                 {"communication", seconds.communication},
                 {"optimizer", seconds.optimizer}}},
               {"peak_memory_bytes", record.peak_memory_bytes}});
}

std::string to_json(const ValidationRecord& record) {
  Json json = {{"kind", "validation"},
               {"epoch", record.epoch},
               {"update", record.update},
               {"samples", record.samples},
               {"clean_correct", record.clean_correct},
               {"clean_accuracy", record.clean_accuracy}};
  if (record.clean_top5_accuracy) {
    json["clean_top5_accuracy"] = *record.clean_top5_accuracy;
  }
  json["robust_correct"] = or_null(record.robust_correct);
  json["robust_accuracy"] = or_null(record.robust_accuracy);
  json["attack"] = record.attack.empty() ? Json() : Json(record.attack);
  json["average"] = record.average;
  return dump(json);
}

std::string to_json(const Event& event) {
  Json json = {
      {"kind", "event"}, {"what", event.what}, {"epoch", event.epoch}, {"update", event.update}};
  for (const auto& [name, detail] : event.details) {
    require(!json.contains(name), "a detail of an event must not be named ", name);
    std::visit([&json, &key = name](const auto& value) { json[key] = value; }, detail);
  }
  return dump(json);
}

JsonlSink::JsonlSink(const std::filesystem::path& path,
                     std::optional<std::int64_t> resumed_update) {
  std::error_code ignored;  // a file that is not there has no lines to keep
  if (resumed_update && std::filesystem::exists(path, ignored)) {
    write_file_atomically(path, lines_until(path, *resumed_update));
  }
  file_ = std::make_unique<AppendFile>(
      path, resumed_update ? AppendFile::Start::kKeep : AppendFile::Start::kEmpty);
}

JsonlSink::~JsonlSink() = default;

void JsonlSink::write(const TrainRecord& record) { file_->append(to_json(record) + '\n'); }
void JsonlSink::write(const ValidationRecord& record) { file_->append(to_json(record) + '\n'); }
void JsonlSink::write(const Event& event) { file_->append(to_json(event) + '\n'); }

}  // namespace temper
