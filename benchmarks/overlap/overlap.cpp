// How much of the gradient reduction hides behind the backward pass: ResNet-50 over two ranks with
// Gloo, one compute thread each. Three kinds of backward pass take turns on every rank: alone (B),
// with the plain reduction behind it (P), and with the overlapping reduction (T). R = P - B is what
// the reduction costs, and (P - T) / R the share of it that is hidden.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <iostream>

#include "../../apps/options.h"
#include "temper/core/file.h"
#include "temper/core/text.h"
#include "temper/dist/gradient_reducer.h"
#include "temper/launch/heartbeat.h"
#include "temper/launch/worker.h"
#include "temper/models/architectures.h"
#include "temper/optim/gradients.h"

namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  std::int64_t batch = 8;  // images a rank
  std::int64_t image_size = 64;
  int repetitions = 5;
  std::string json{};
};

// A model and how its gradients are reduced.
struct Side {
  std::shared_ptr<temper::Classifier> model;
  std::vector<at::Tensor> parameters;
  std::unique_ptr<temper::GradientReducer> reducer;
};

Side make_side(const Settings& settings, temper::Communicator& communicator, bool overlap) {
  Side side;
  side.model = temper::built_in_architectures().make(
      "resnet50", {.classes = 1000, .image_size = settings.image_size});
  temper::initialize(*side.model, 1);
  side.model->set_statistics_mode(temper::StatisticsMode::kBatch);
  side.parameters = side.model->parameters();
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (const auto& item : side.model->named_parameters()) {
    named.emplace_back(item.key(), item.value());
  }
  side.reducer = temper::make_gradient_reducer(named, communicator, {.overlap = overlap});
  return side;
}

// Seconds of one backward pass, on the rank that takes longest. The ranks begin together.
double timed_backward(Side& side, const at::Tensor& images, temper::Communicator& communicator,
                      const std::function<void(const at::Tensor&)>& backward) {
  temper::zero_gradients(side.parameters);
  const at::Tensor loss = side.model->forward(images).square().mean();
  at::Tensor meeting = at::zeros({1});
  communicator.all_reduce_sum(meeting);
  const auto begin = Clock::now();
  backward(loss);
  at::Tensor seconds = at::full({1}, std::chrono::duration<double>(Clock::now() - begin).count(),
                                at::TensorOptions(at::kDouble));
  communicator.all_reduce_max(seconds);
  return seconds.item<double>();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Seconds of the three kinds, and the share that they show.
struct Times {
  double alone = 0;
  double plain = 0;
  double overlapping = 0;

  [[nodiscard]] double reduction() const { return plain - alone; }
  [[nodiscard]] double hidden() const { return (plain - overlapping) / reduction(); }
  [[nodiscard]] std::string json() const {
    return temper::concat(R"({"backward": )", alone, R"(, "plain": )", plain,
                          R"(, "overlapping": )", overlapping, "}");
  }
};

void report(const Settings& settings, double parameters, const Times& medians,
            const Times& fastest) {
  const auto line = [&](const char* name, double median, double least, double scale,
                        const char* unit) {
    const int digits = scale == 1 ? 3 : 0;
    std::cout << temper::concat(name, temper::fixed(scale * median, digits), unit, "   ",
                                temper::fixed(scale * least, digits), unit, "\n");
  };
  std::cout << temper::concat("resnet50, ", temper::fixed(parameters / 1e6, 1),
                              " million parameters, batch ", settings.batch, " a rank of ",
                              settings.image_size, "x", settings.image_size,
                              ", two ranks, Gloo, one compute thread a rank\n", "medians of ",
                              settings.repetitions, " turns, and the fastest ones\n");
  line("backward pass alone          B   ", medians.alone, fastest.alone, 1, " s");
  line("reduction behind it      B + R   ", medians.plain, fastest.plain, 1, " s");
  line("overlapping reduction        T   ", medians.overlapping, fastest.overlapping, 1, " s");
  line("reduction                    R   ", medians.reduction(), fastest.reduction(), 1, " s");
  line("hidden         (B + R - T) / R   ", medians.hidden(), fastest.hidden(), 100, " %");
  if (settings.json.empty()) {
    return;
  }
  temper::write_file_atomically(
      settings.json,
      temper::concat(R"({"benchmark": "overlap", "repetitions": )", settings.repetitions,
                     R"(, "batch": )", settings.batch, R"(, "image_size": )", settings.image_size,
                     R"(, "medians": )", medians.json(), R"(, "fastest": )", fastest.json(),
                     R"(, "ratios": {"hidden": )", medians.hidden(), R"(, "hidden_of_fastest": )",
                     fastest.hidden(), "}}\n"));
}

int run_rank(const Settings& settings, const temper::RankEnvironment& environment) {
  at::set_num_threads(1);
  const temper::Heartbeat heartbeat = temper::Heartbeat::from_environment();
  const temper::Store store = temper::Store::connect(
      environment.master_address, environment.master_port, std::chrono::seconds(60));
  const auto communicator = temper::make_communicator(
      &store, {.rank = environment.rank, .world_size = environment.world_size});
  Side plain = make_side(settings, *communicator, false);
  Side overlapping = make_side(settings, *communicator, true);
  const at::Tensor images = at::rand({settings.batch, 3, settings.image_size, settings.image_size});
  std::array<std::vector<double>, 3> seconds;
  // The first two turns are not counted: memory, and the buckets' order.
  for (int turn = -2; turn < settings.repetitions; ++turn) {
    const std::array<double, 3> measured{
        timed_backward(plain, images, *communicator,
                       [](const at::Tensor& loss) { loss.backward(); }),
        timed_backward(plain, images, *communicator,
                       [&](const at::Tensor& loss) { plain.reducer->backward(loss); }),
        timed_backward(overlapping, images, *communicator,
                       [&](const at::Tensor& loss) { overlapping.reducer->backward(loss); })};
    for (std::size_t kind = 0; turn >= 0 && kind < measured.size(); ++kind) {
      seconds[kind].push_back(measured[kind]);
    }
  }
  if (environment.rank == 0) {
    double parameters = 0;
    for (const at::Tensor& parameter : plain.parameters) {
      parameters += static_cast<double>(parameter.numel());
    }
    const auto least = [](const std::vector<double>& values) { return std::ranges::min(values); };
    report(settings, parameters, {median(seconds[0]), median(seconds[1]), median(seconds[2])},
           {least(seconds[0]), least(seconds[1]), least(seconds[2])});
  }
  temper::report_finished(heartbeat);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Share of the gradient reduction that hides behind the backward pass");
  Settings settings;
  app.add_option("--batch", settings.batch, "images a rank")->check(CLI::Range(1, 1024));
  app.add_option("--image-size", settings.image_size, "pixels")->check(CLI::Range(32, 512));
  app.add_option("--repetitions", settings.repetitions, "turns")->check(CLI::Range(1, 10'000));
  app.add_option("--json", settings.json, "file for the result");
  return temper::apps::run_app(app, argc, argv, [&] {
    const temper::StartOptions start{.processes = "2",
                                     .command = std::vector<std::string>(argv, argv + argc)};
    return temper::start_ranks(
        start, [] { return std::filesystem::path(); },
        [&](const temper::RankEnvironment& environment) {
          return run_rank(settings, environment);
        });
  });
}
