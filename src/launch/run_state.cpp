#include "launch/run_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>

#include "launch/rank_process.h"
#include "temper/core/error.h"
#include "temper/core/file.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

// Blanks stand for what the old text had more.
void change_in_place(const fs::path& path, std::string content, std::size_t old_size) {
  if (content.size() < old_size) {
    content.append(old_size - content.size(), ' ');
  }
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open() || ::pwrite(file.get(), content.data(), content.size(), 0) !=
                             static_cast<ssize_t>(content.size())) {
    throw_errno(concat("cannot change ", path.string()));
  }
}

}  // namespace

void end_running_state(const fs::path& run_directory, std::string_view state) {
  const fs::path path = run_directory / "status.json";
  if (run_directory.empty() || !fs::exists(path)) {
    return;
  }
  const std::string old = read_file(path);
  auto json = nlohmann::ordered_json::parse(old, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("state", "") != "running") {
    return;
  }
  json["state"] = state;
  json["eta_seconds"] = nullptr;
  const std::string text = json.dump(2) + "\n";
  try {
    write_file_atomically(path, text);
  } catch (const SystemError&) {  // a full disk
    change_in_place(path, text, old.size());
  }
}

}  // namespace temper
