// Loads a data set for some epochs and prints one line of JSON: images a second, CPU seconds per
// 1,000 images, time to the first batch, memory. The work of benchmarks/loader/peers.py's peers:
// RandomResizedCrop and flip (train) or Resize and CenterCrop (eval) to batches of bytes.

#include "temper/data/loader.h"

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "temper/core/error.h"
#include "temper/data/open_dataset.h"
#include "temper/data/sampler.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  temper::DatasetOptions data;
  int threads = 2;
  int epochs = 2;
  int batch = 64;
  int image_size = 224;
  std::string task = "train";
  int step_milliseconds = 0;
  bool cache = false;
  bool memory_each_epoch = false;
  bool first_epoch = false;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  long size = 0, resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

std::vector<std::vector<std::uint32_t>> epoch_batches(const Settings& settings, std::size_t samples,
                                                      std::uint32_t epoch) {
  std::vector<std::uint32_t> order(samples);
  if (settings.task == "train") {
    order = temper::epoch_permutation(1, epoch, samples);
  } else {
    for (std::size_t i = 0; i < samples; ++i) {
      order[i] = static_cast<std::uint32_t>(i);
    }
  }
  std::vector<std::vector<std::uint32_t>> batches;
  const auto batch = static_cast<std::size_t>(settings.batch);
  for (std::size_t at = 0; at + batch <= samples; at += batch) {
    batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(at),
                         order.begin() + static_cast<std::ptrdiff_t>(at + batch));
  }
  return batches;
}

// Fetches all batches; the caller's work of a step is a sleep, as if a GPU did it.
std::size_t run_epoch(const Settings& settings, temper::Loader& loader, std::size_t samples,
                      std::uint32_t epoch) {
  loader.start(epoch, epoch_batches(settings, samples, epoch));
  std::size_t images = 0;
  while (loader.remaining() > 0) {
    temper::HostBatch batch = loader.next();
    images += static_cast<std::size_t>(batch.count);
    if (settings.step_milliseconds > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(settings.step_milliseconds));
    }
    loader.recycle(std::move(batch));
  }
  return images;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

nlohmann::ordered_json run(const Settings& settings) {
  const auto begin = Clock::now();
  const auto dataset = temper::open_dataset(settings.data);
  const bool training = settings.task == "train";
  temper::Loader loader(
      *dataset,
      temper::Transform(temper::preset_transform("imagenet", settings.image_size, training)),
      {.threads = settings.threads, .cache = settings.cache, .image_size = settings.image_size});
  loader.start(0, epoch_batches(settings, dataset->size(), 0));
  loader.recycle(loader.next());
  const double first_batch = seconds_since(begin);
  while (loader.remaining() > 0) {  // warms the file cache
    loader.recycle(loader.next());
  }
  const double first_epoch =
      static_cast<double>(loader.statistics().samples) / seconds_since(begin);
  std::vector<double> rates, cpu, resident;
  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const double cpu_before = cpu_seconds();
    const auto start = Clock::now();
    const auto images = static_cast<double>(
        run_epoch(settings, loader, dataset->size(), static_cast<std::uint32_t>(epoch)));
    rates.push_back(images / seconds_since(start));
    cpu.push_back((cpu_seconds() - cpu_before) / images * 1000);
    resident.push_back(resident_mib());
  }
  const temper::LoaderStatistics statistics = loader.statistics();
  nlohmann::ordered_json result{
      {"img_per_s", median(rates)},
      {"cpu_s_per_1000", median(cpu)},
      {"first_batch_s", first_batch},
      {"wait_share", statistics.wait_share()},
      {"queued_batches", statistics.queued_batches},
      {"counted_mib", static_cast<double>(statistics.peak_bytes) / (1 << 20)},
      {"resident_mib", resident.back()},
      {"batch_shape", {settings.batch, settings.image_size, settings.image_size, 3}},
      {"dtype", "uint8"}};
  if (settings.first_epoch) {
    result["first_epoch_img_per_s"] = first_epoch;
  }
  if (settings.memory_each_epoch) {
    result["resident_mib_by_epoch"] = resident;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Images a second of the loader");
  Settings settings;
  app.add_option("path", settings.data.path, "the data")->required();
  app.add_option("--format", settings.data.format);
  app.add_option("--threads", settings.threads)->check(CLI::Range(1, 1024));
  app.add_option("--epochs", settings.epochs)->check(CLI::Range(1, 1000));
  app.add_option("--batch", settings.batch)->check(CLI::Range(1, 65536));
  app.add_option("--image-size", settings.image_size)->check(CLI::Range(1, 4096));
  app.add_option("--task", settings.task)->check(CLI::IsMember({"train", "eval"}));
  app.add_option("--step-ms", settings.step_milliseconds, "what the caller does with a batch");
  app.add_flag("--cache", settings.cache, "keep stored samples in memory");
  app.add_flag("--first-epoch", settings.first_epoch, "also the rate of the epoch that warms up");
  app.add_flag("--memory-each-epoch", settings.memory_each_epoch);
  try {
    app.parse(argc, argv);
    std::cout << run(settings).dump() << "\n";
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "loader_benchmark: " << error.what() << "\n";
    return 1;
  }
}
