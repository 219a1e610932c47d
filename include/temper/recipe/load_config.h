#pragma once
// Reads, checks and prints configurations. The file format is strict: every unknown or duplicate
// key, wrong type, value out of range and impossible combination is found, and all are reported
// together, in the order of the files.

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "temper/recipe/config.h"

namespace temper {

struct LoadedConfig {
  Config config;
  // For each key that was given: its dotted path and the place, "FILE:LINE" or "command line".
  // A key that is absent has its default.
  std::map<std::string, std::string> origin;
  // What was given but has no effect, each with its place; to be shown to the user.
  std::vector<std::string> notices;
};

// Words that keys of choices may hold besides those of the library, by the key's dotted path.
using MoreChoices = std::map<std::string, std::vector<std::string>>;

// Merges `files` in order, key by key, the later one winning, then sets the `overrides`, each
// "dotted.path=YAML value"; such a value replaces a whole map or list. A file's `include` (a path
// or a list of them, relative to the file) is merged before the file's own keys.
//
// Throws ConfigError with one line a problem: "FILE:LINE:COLUMN: path.to.key: what is wrong".
// Overrides count as the file "command line", whose lines are the overrides.
[[nodiscard]] LoadedConfig load_config(const std::vector<std::filesystem::path>& files,
                                       const std::vector<std::string>& overrides = {},
                                       const MoreChoices& more_choices = {});

// The configuration as YAML with every key; load_config accepts it and gives the same values.
// Comments tell where each value came from.
[[nodiscard]] std::string print_config(const LoadedConfig& loaded, bool with_comments = true);

// data.normalization of a configuration that print_config wrote; the rest, which may be of another
// version, is not looked at. Throws ConfigError.
[[nodiscard]] NormalizationConfig read_normalization(const std::string& printed);

// The text of docs/configuration.md: every key with default, range or choices, and meaning.
[[nodiscard]] std::string configuration_reference();

}  // namespace temper
