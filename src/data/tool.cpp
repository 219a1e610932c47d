#include "temper/data/tool.h"

#include <filesystem>
#include <memory>
#include <ostream>

#include "data/folder_cache.h"
#include "data/interruptible.h"
#include "temper/core/error.h"
#include "temper/data/export.h"
#include "temper/data/inspect.h"
#include "temper/data/pack.h"
#include "temper/data/unpack.h"

namespace temper {
namespace {

std::string format_of(const ToolOptions& options) {
  return options.dataset.format == "auto" ? guess_format(options.dataset.path)
                                          : options.dataset.format;
}

std::unique_ptr<Dataset> open(const ToolOptions& options) {
  DatasetOptions dataset = options.dataset;
  dataset.format = format_of(options);
  return std::make_unique<Interruptible>(open_dataset(dataset), options.interrupted);
}

// The next scan of a folder would find what was written there.
void require_outside_of_source(const ToolOptions& options) {
  namespace fs = std::filesystem;
  const std::string source = options.dataset.path.substr(0, options.dataset.path.find('#'));
  std::error_code none;
  if (options.output.empty() || format_of(options) != "folder") {
    return;
  }
  const fs::path inside = fs::weakly_canonical(options.output, none)
                              .lexically_relative(fs::weakly_canonical(source, none));
  if (!inside.empty() && *inside.begin() != "..") {
    throw ConfigError(concat("the output ", options.output, " lies in the data that are read, ",
                             source, "; write it elsewhere"));
  }
}

// A name that ends with another format would be read as that.
void require_fitting_suffix(const std::string& output, const std::string& format) {
  for (const std::string other : {"npz", "pack"}) {
    if (other != format && output.ends_with("." + other)) {
      throw ConfigError(
          concat("the output ", output, " is written as ", format, "; give it another name"));
    }
  }
}

template <typename Report>
int print(const Report& report, const ToolOptions& options, std::ostream& out) {
  out << (options.json ? to_json(report) : to_text(report));
  return report.bad.empty() ? 0 : 1;
}

int pack(const Dataset& dataset, const ToolOptions& options, std::ostream& out) {
  require_fitting_suffix(options.output, "pack");
  const PackSummary summary = pack_dataset(
      dataset, options.output,
      {.shards = options.shards, .pixels = options.pixels, .threads = options.threads});
  if (options.json) {
    out << concat("{\"samples\": ", summary.samples, ", \"files\": ", summary.files,
                  ", \"bytes\": ", summary.bytes, "}\n");
  } else {
    out << concat(summary.samples, " samples, ", summary.bytes, " bytes in ", options.output,
                  summary.files == 1 ? "" : concat(", ", summary.files, " files"), "\n");
  }
  return 0;
}

int unpack(const Dataset& dataset, const ToolOptions& options, std::ostream& out) {
  const auto files = unpack_dataset(dataset, options.output);
  out << (options.json ? concat("{\"files\": ", files, "}\n")
                       : concat(files, " files in ", options.output, "\n"));
  return 0;
}

int index(const ToolOptions& options, std::ostream& out) {
  const std::filesystem::path root = options.dataset.path;
  const std::filesystem::path file =
      options.output.empty() ? root / kFolderCacheName : std::filesystem::path(options.output);
  const FolderIndex index = write_folder_cache(root, file);
  if (options.json) {
    out << concat("{\"samples\": ", index.labels.size(), ", \"folders\": ", index.folders.size(),
                  "}\n");
    return 0;
  }
  out << concat(index.labels.size(), " samples in ", index.folders.size(), " folders, kept in ",
                file.string(), "\n");
  if (!options.output.empty()) {
    out << concat("use it as data.train: \"", options.dataset.path, "#index=", options.output,
                  "\"\n");
  }
  return 0;
}

int convert(const Dataset& dataset, const ToolOptions& options, std::ostream& out) {
  if (options.to == "pack") {
    return pack(dataset, options, out);
  }
  if (options.to == "folder") {
    const auto files = write_folder(dataset, options.output, options.threads);
    out << (options.json ? concat("{\"files\": ", files, "}\n")
                         : concat(files, " files in ", options.output, "\n"));
    return 0;
  }
  if (options.to == "cifar10" || options.to == "cifar100" || options.to == "mnist") {
    const auto files = options.to == "mnist"
                           ? write_mnist(dataset, options.output, options.threads)
                           : write_cifar(dataset, options.to, options.output, options.threads);
    out << (options.json
                ? concat("{\"samples\": ", dataset.size(), ", \"files\": ", files, "}\n")
                : concat(dataset.size(), " samples, ", files, " files in ", options.output, "\n"));
    return 0;
  }
  if (options.to != "npz") {
    throw ConfigError(concat("cannot convert to '", options.to,
                             "'; --to is folder, pack, npz, cifar10, cifar100 or mnist"));
  }
  require_fitting_suffix(options.output, "npz");
  const auto bytes = write_npz(dataset, options.output, options.threads);
  out << (options.json
              ? concat("{\"samples\": ", dataset.size(), ", \"bytes\": ", bytes, "}\n")
              : concat(dataset.size(), " samples, ", bytes, " bytes in ", options.output, "\n"));
  return 0;
}

}  // namespace

int run_datatool(const ToolOptions& options, std::ostream& out) {
  if (options.command == "index") {
    return index(options, out);
  }
  require_outside_of_source(options);
  const std::unique_ptr<Dataset> dataset = open(options);
  if (options.command == "verify") {
    return print(verify_dataset(*dataset, options.threads), options, out);
  }
  if (options.command == "stats") {
    return print(describe_dataset(*dataset, options.threads), options, out);
  }
  if (options.command == "pack") {
    return pack(*dataset, options, out);
  }
  if (options.command == "convert") {
    return convert(*dataset, options, out);
  }
  require(options.command == "unpack", "unknown command ", options.command);
  return unpack(*dataset, options, out);
}

}  // namespace temper
