#include "recipe/run_files.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>

#include "temper/core/file.h"
#include "temper/core/log.h"
#include "temper/metrics/csv_sink.h"
#include "temper/metrics/jsonl_sink.h"
#include "temper/metrics/metrics_log.h"
#include "temper/metrics/tensorboard_sink.h"
#include "temper/recipe/versions.h"

namespace temper {

void write_run_files(const std::filesystem::path& run_directory, const LoadedConfig& loaded,
                     const RunDescription& description) {
  write_file_atomically(run_directory / "config.yaml", print_config(loaded));
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  nlohmann::ordered_json document;
  document["command"] = description.command;
  for (const auto& [name, version] : versions()) {
    document["versions"][name] = version;
  }
  document["hosts"] = {host.data()};
  document["world_size"] = description.world_size;
  document["compute_threads"] = description.compute_threads;
  document["seed"] = description.seed;
  document["data_fingerprint"] = description.data_fingerprint;
  write_file_atomically(run_directory / "run.json", document.dump(2) + "\n");
}

namespace {

namespace fs = std::filesystem;

fs::path numbered(const fs::path& path, int number) {
  return path.parent_path() / concat(path.stem().string(), ".", number, path.extension().string());
}

}  // namespace

void set_aside_old_run(const fs::path& run_directory) {
  std::vector<fs::path> old;
  for (const char* name : {"metrics.jsonl", "epochs.csv", "checkpoints", "tensorboard"}) {
    const fs::path path = run_directory / name;
    const bool is_file = fs::path(name).has_extension();
    if ((is_file ? fs::is_regular_file(path) : fs::is_directory(path)) && !fs::is_empty(path)) {
      old.push_back(path);
    }
  }
  if (old.empty()) {
    return;
  }
  int number = 1;
  while (std::ranges::any_of(
      old, [&](const fs::path& path) { return fs::exists(numbered(path, number)); })) {
    ++number;
  }
  std::vector<std::string> names;
  for (const fs::path& path : old) {
    fs::rename(path, numbered(path, number));
    names.push_back(numbered(path, number).filename().string());
  }
  log_warning("--resume never: what an earlier run left in ", run_directory.string(),
              " is kept as ", join(names, ", "));
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
