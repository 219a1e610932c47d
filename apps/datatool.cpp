// Checks, describes and unpacks data sets.

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "temper/core/cpu_budget.h"
#include "temper/core/error.h"
#include "temper/data/inspect.h"
#include "temper/data/open_dataset.h"
#include "temper/data/unpack.h"

namespace {

struct Arguments {
  temper::DatasetOptions dataset{.format = "auto", .path = {}, .channels = 0, .classes = 0};
  std::string output;
  int threads = temper::cpu_budget().cpus;
  bool json = false;
};

CLI::App* add_command(CLI::App& app, const char* name, const char* help, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("path", arguments.dataset.path, "e.g. photos/train or digits.npz#train")
      ->required();
  command->add_option("--format", arguments.dataset.format, "auto, folder, npz, cifar10, cifar100");
  command->add_option("--channels", arguments.dataset.channels, "1 gray, 3 RGB, 0 as stored");
  command->add_option("--classes", arguments.dataset.classes, "number to expect, 0 any");
  command->add_option("--threads", arguments.threads)->check(CLI::Range(1, 1024));
  command->add_flag("--json", arguments.json, "print one JSON object");
  return command;
}

int run(const std::string& command, Arguments arguments) {
  if (arguments.dataset.format == "auto") {
    arguments.dataset.format = temper::guess_format(arguments.dataset.path);
  }
  const auto dataset = temper::open_dataset(arguments.dataset);
  const auto print = [&](const auto& report) {
    std::cout << (arguments.json ? temper::to_json(report) : temper::to_text(report));
    return report.bad.empty() ? 0 : 1;
  };
  if (command != "unpack") {
    return command == "verify" ? print(temper::verify_dataset(*dataset, arguments.threads))
                               : print(temper::describe_dataset(*dataset, arguments.threads));
  }
  const auto files = temper::unpack_dataset(*dataset, arguments.output);
  std::cout << (arguments.json ? temper::concat("{\"files\": ", files, "}\n")
                               : temper::concat(files, " files in ", arguments.output, "\n"));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Data sets: check, describe, unpack");
  app.require_subcommand(1);
  try {
    Arguments arguments;
    add_command(app, "verify", "read everything, list what is bad", arguments);
    add_command(app, "stats", "counts, sizes, formats, mean, deviation", arguments);
    add_command(app, "unpack", "write one PNG file per sample in class folders", arguments)
        ->add_option("output", arguments.output, "new folder")
        ->required();
    for (const char* later : {"pack", "convert", "index"}) {
      app.add_subcommand(later, "comes in a later version")->allow_extras()->callback([later] {
        throw temper::ConfigError(temper::concat("datatool ", later, " comes in a later version"));
      });
    }
    app.parse(argc, argv);
    return run(app.get_subcommands().front()->get_name(), arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "datatool: " << error.what() << "\n";
    return dynamic_cast<const temper::ConfigError*>(&error) != nullptr ? 2 : 1;
  }
}
