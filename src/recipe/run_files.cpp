#include "recipe/run_files.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "temper/core/file.h"
#include "temper/metrics/csv_sink.h"
#include "temper/metrics/jsonl_sink.h"
#include "temper/metrics/metrics_log.h"
#include "temper/metrics/tensorboard_sink.h"
#include "temper/recipe/versions.h"

namespace temper {

void write_run_files(const std::filesystem::path& run_directory, const LoadedConfig& loaded,
                     const RunDescription& description) {
  write_file_atomically(run_directory / "config.yaml", print_config(loaded));
  nlohmann::ordered_json document;
  document["command"] = description.command;
  for (const auto& [name, version] : versions()) {
    document["versions"][name] = version;
  }
  document["hosts"] = description.hosts;
  document["launcher"] = description.launcher;
  document["launch"] = nlohmann::ordered_json::parse(to_json(description.launch));
  document["world_size"] = description.world_size;
  document["compute_threads"] = description.compute_threads;
  document["seed"] = description.seed;
  document["data_fingerprint"] = description.data_fingerprint;
  write_file_atomically(run_directory / "run.json", document.dump(2) + "\n");
}

std::unique_ptr<Sink> make_sinks(const std::filesystem::path& run_directory, const Config& config,
                                 ProgressMode progress, RunLength length,
                                 std::optional<std::int64_t> resumed_update) {
  const std::filesystem::path metrics = run_directory / "metrics.jsonl";
  auto sinks = std::make_unique<SinkList>();
  sinks->add(std::make_unique<JsonlSink>(metrics, resumed_update));
  auto csv = std::make_unique<CsvSink>(run_directory / "epochs.csv");
  if (resumed_update) {
    replay_metrics(metrics, *csv);
  }
  sinks->add(std::move(csv));
  sinks->add(std::make_unique<StatusFile>(run_directory / "status.json", length));
  if (config.logging.tensorboard) {
    sinks->add(std::make_unique<TensorBoardSink>(run_directory / "tensorboard", resumed_update));
  }
  sinks->add(std::make_unique<ConsoleSink>(std::cout, progress, length));
  return sinks;
}

}  // namespace temper
