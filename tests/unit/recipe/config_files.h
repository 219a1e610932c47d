#pragma once
// A folder of configuration files that is the working directory during a test.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/recipe/load_config.h"

namespace temper {

class ConfigFiles : public testing::Test {
 protected:
  ConfigFiles()
      : before_(std::filesystem::current_path()),
        folder_(std::filesystem::temp_directory_path() /
                concat("temper_config_", static_cast<long>(getpid()))) {
    std::filesystem::create_directories(folder_);
    std::filesystem::current_path(folder_);
  }
  ~ConfigFiles() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  ConfigFiles(const ConfigFiles&) = delete;
  ConfigFiles& operator=(const ConfigFiles&) = delete;

  static void write(const std::filesystem::path& path, const std::string& text) {
    if (path.has_parent_path()) {
      std::filesystem::create_directories(path.parent_path());
    }
    write_file_atomically(path, text);
  }

  // Loads `text` as c.yaml.
  static LoadedConfig load(const std::string& text,
                           const std::vector<std::string>& overrides = {}) {
    write("c.yaml", text);
    return load_config({"c.yaml"}, overrides);
  }

  static std::string error_of(const std::vector<std::filesystem::path>& files,
                              const std::vector<std::string>& overrides = {}) {
    try {
      static_cast<void>(load_config(files, overrides));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  std::filesystem::path before_;
  std::filesystem::path folder_;
};

}  // namespace temper
