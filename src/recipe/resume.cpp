#include "recipe/resume.h"

#include "temper/checkpoint/container.h"
#include "temper/checkpoint/directory.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

using Kind = ResumePolicy::Kind;

std::string choose_file(const ResumePolicy& policy, const std::filesystem::path& folder) {
  if (policy.kind == Kind::kFile) {
    return policy.file.string();
  }
  const NewestCheckpoint newest = CheckpointDirectory(folder, 0).newest_valid();
  for (const RejectedFile& rejected : newest.rejected) {
    log_warning("checkpoint ", rejected.path.string(), " is not used: ", rejected.reason);
  }
  return newest.checkpoint ? newest.path.string() : "";
}

void require_same(const std::string& path, const char* what, const std::string& before,
                  const std::string& now) {
  if (before != now) {
    throw ConfigError(concat(
        path, " was made with ", what, " ", before, ", now it is ", now,
        ": the samples of an update would differ; start a new run with another --run-dir, or use "
        "the file as model.initial_weights"));
  }
}

// Says which lines of the configuration are not those of the checkpoint.
void log_changes(const std::string& path, const std::string& before, const std::string& now) {
  if (before == now) {
    return;
  }
  const std::vector<std::string> old_lines = split(before, '\n');
  const std::vector<std::string> new_lines = split(now, '\n');
  std::string changes;
  for (std::size_t i = 0; old_lines.size() == new_lines.size() && i < old_lines.size(); ++i) {
    if (old_lines[i] != new_lines[i]) {
      changes += concat("\n  ", trim(old_lines[i]), "  ->  ", trim(new_lines[i]));
    }
  }
  log_warning("the configuration is not that of ", path,
              changes.empty() ? ", keys were added or removed" : ":", changes);
}

}  // namespace

ResumePolicy parse_resume_policy(const std::string& text) {
  if (text == "auto") {
    return {Kind::kAuto, {}};
  }
  if (text == "never") {
    return {Kind::kNever, {}};
  }
  if (text == "must") {
    return {Kind::kMust, {}};
  }
  if (!std::filesystem::exists(text)) {
    throw ConfigError(
        concat("--resume ", text,
               ": expected auto, never, must or the path of a checkpoint; no such file"));
  }
  return {Kind::kFile, text};
}

Value read_resume_file(const std::string& path) {
  const auto refuse = [&](const std::exception& error) -> ConfigError {
    return ConfigError(concat("--resume ", path, ": ", error.what()));
  };
  try {
    return read_checkpoint(path);
  } catch (const DataError& error) {
    throw refuse(error);
  } catch (const SystemError& error) {
    throw refuse(error);
  }
}

ValueDict to_entries(const ResumeKey& key) {
  return {{"data_fingerprint", key.data_fingerprint},
          {"seed", key.seed},
          {"global_batch_size", key.global_batch_size},
          {"compute_threads", key.compute_threads},
          {"config", key.config}};
}

std::optional<Value> find_checkpoint(const ResumePolicy& policy,
                                     const std::filesystem::path& folder,
                                     Communicator& communicator, ResumeKey& now) {
  if (policy.kind == Kind::kNever) {
    return std::nullopt;
  }
  const std::string path =
      broadcast_text(communicator, communicator.is_main_rank() ? choose_file(policy, folder) : "");
  if (path.empty()) {
    if (policy.kind == Kind::kMust) {
      throw ConfigError(concat("--resume must: ", folder.string(), " holds no valid checkpoint"));
    }
    return std::nullopt;
  }
  Value checkpoint = policy.kind == Kind::kFile ? read_resume_file(path) : read_checkpoint(path);
  const ValueDict& saved = checkpoint.as_dict();
  require_same(path, "data of index hash", saved.at("data_fingerprint").as_string(),
               now.data_fingerprint);
  require_same(path, "run.seed", concat(saved.at("seed").as_int()), concat(now.seed));
  require_same(path, "a global batch size of", concat(saved.at("global_batch_size").as_int()),
               concat(now.global_batch_size));
  now.compute_threads = saved.at("compute_threads").as_int();
  if (communicator.is_main_rank()) {
    log_changes(path, saved.at("config").as_string(), now.config);
  }
  return checkpoint;
}

}  // namespace temper
