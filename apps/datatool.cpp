// Checks, describes and converts data sets.

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <string>

#include "stop_signal.h"
#include "temper/core/cpu_budget.h"
#include "temper/core/error.h"
#include "temper/data/tool.h"

namespace {

CLI::App* add_command(CLI::App& app, const char* name, const char* help,
                      temper::ToolOptions& options) {
  CLI::App* command = app.add_subcommand(name, help);
  command->add_option("path", options.dataset.path, "e.g. photos/train or digits.npz#train")
      ->required();
  command->add_option("--format", options.dataset.format,
                      "auto, folder, pack, npz, cifar10, cifar100, mnist, synthetic");
  command->add_option("--channels", options.dataset.channels,
                      "1 gray, 3 RGB, 0 as stored (image files: RGB)");
  command->add_option("--classes", options.dataset.classes, "number to expect, 0 any");
  command->add_option("--threads", options.threads)->check(CLI::Range(1, 1024));
  command->add_flag("--json", options.json, "print one JSON object");
  return command;
}

void add_pack_options(CLI::App* command, temper::ToolOptions& options) {
  command->add_option("--shards", options.shards, "a folder of that many files; 0 one file");
  command->add_flag("--pixels", options.pixels, "hold decoded pixels, not the image files' bytes");
}

void add_commands(CLI::App& app, temper::ToolOptions& options) {
  add_command(app, "verify", "read everything, list what is bad", options);
  add_command(app, "stats", "counts, sizes, formats, mean, deviation", options);
  CLI::App* pack = add_command(app, "pack", "write one archive with an index", options);
  pack->add_option("output", options.output, "new file, or folder with --shards")->required();
  add_pack_options(pack, options);
  CLI::App* convert = add_command(app, "convert", "write as another format", options);
  convert->add_option("output", options.output, "new file or folder")->required();
  convert->add_option("--to", options.to, "folder, pack, npz, cifar10, cifar100, mnist")
      ->required();
  add_pack_options(convert, options);
  add_command(app, "unpack", "write one PNG file per sample in class folders", options)
      ->add_option("output", options.output, "new folder")
      ->required();
  CLI::App* index = app.add_subcommand("index", "keep the list of a folder's files");
  index->add_option("path", options.dataset.path, "e.g. photos/train")->required();
  index->add_option("--output", options.output, "where to keep it; default: in the folder");
  index->add_flag("--json", options.json, "print one JSON object");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Data sets: check, describe, convert");
  app.require_subcommand(1);
  temper::ToolOptions options;
  options.threads = temper::cpu_budget().cpus;
  try {
    add_commands(app, options);
    app.parse(argc, argv);
    temper::apps::catch_stop_signals();
    options.interrupted = [] { return temper::apps::stop_signal != 0; };
    options.command = app.get_subcommands().front()->get_name();
    return temper::run_datatool(options, std::cout);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const temper::ToolInterrupted& error) {
    std::cerr << "datatool: " << error.what() << "\n";
    return 128 + temper::apps::stop_signal;
  } catch (const std::exception& error) {
    std::cerr << "datatool: " << error.what() << "\n";
    return dynamic_cast<const temper::ConfigError*>(&error) != nullptr ? 2 : 1;
  }
}
