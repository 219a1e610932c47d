#include "recipe/resume.h"

#include "temper/checkpoint/container.h"
#include "temper/core/error.h"
#include "temper/core/log.h"

namespace temper {
namespace {

using Kind = ResumePolicy::Kind;

// Says which keys of the configuration are not those of the checkpoint.
void log_changes(const std::string& path, const std::vector<ConfigChange>& changes) {
  std::string text;
  for (const ConfigChange& change : changes) {
    text += concat("\n  ", change.key, ": ", change.before.empty() ? "(not set)" : change.before,
                   " -> ", change.now.empty() ? "(not set)" : change.now);
  }
  if (!text.empty()) {
    log_warning("the configuration is not that of ", path, ":", text);
  }
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

namespace {

// A folder that cannot be read is the user's mistake: it is no run directory.
NewestCheckpoint newest_in(const std::filesystem::path& folder) {
  try {
    return CheckpointDirectory(folder, 0).newest_valid();
  } catch (const SystemError& error) {
    throw ConfigError(concat("--run-dir must be a folder: ", error.what()));
  }
}

}  // namespace

std::optional<ChosenCheckpoint> choose_checkpoint(const ResumePolicy& policy,
                                                  const std::filesystem::path& folder,
                                                  std::vector<RejectedFile>* rejected) {
  if (policy.kind == Kind::kNever) {
    return std::nullopt;
  }
  if (policy.kind == Kind::kFile) {
    return ChosenCheckpoint{policy.file.string(), read_resume_file(policy.file.string())};
  }
  NewestCheckpoint newest = newest_in(folder);
  if (rejected != nullptr) {
    *rejected = newest.rejected;
  }
  if (!newest.checkpoint && !newest.rejected.empty()) {
    std::string text =
        concat("no checkpoint in ", folder.string(),
               " is valid, and a new start would write over them; move them away, or "
               "give --resume never");
    for (const RejectedFile& file : newest.rejected) {
      text += concat("\n  ", file.path.string(), ": ", file.reason);
    }
    throw ConfigError(text);
  }
  if (!newest.checkpoint && policy.kind == Kind::kMust) {
    throw ConfigError(concat("--resume must: ", folder.string(), " holds no valid checkpoint"));
  }
  return newest.checkpoint
             ? std::optional(ChosenCheckpoint{newest.path.string(), std::move(*newest.checkpoint)})
             : std::nullopt;
}

std::optional<Value> find_checkpoint(const ResumePolicy& policy,
                                     const std::filesystem::path& folder,
                                     Communicator& communicator, ResumeKey& now,
                                     const std::vector<std::string>& allowed) {
  std::optional<ChosenCheckpoint> chosen;
  std::string error;
  if (communicator.is_main_rank()) {
    std::vector<RejectedFile> rejected;
    try {
      chosen = choose_checkpoint(policy, folder, &rejected);
    } catch (const ConfigError& refusal) {
      error = refusal.what();
    }
    for (const RejectedFile& file : rejected) {
      log_warning("checkpoint ", file.path.string(), " is not used: ", file.reason);
    }
  }
  const PurposeScope scope(communicator, "choice of the checkpoint");
  error = broadcast_text(communicator, error);
  if (!error.empty()) {
    throw ConfigError(error);  // on all ranks, which would else wait for the path
  }
  const std::string path = broadcast_text(communicator, chosen ? chosen->path : "");
  if (path.empty()) {
    return std::nullopt;
  }
  if (!chosen) {
    chosen = {path, read_checkpoint(path)};
  }
  check_resume(path, chosen->checkpoint, now, allowed);
  const ValueDict& saved = chosen->checkpoint.as_dict();
  now.compute_threads = saved.at("compute_threads").as_int();
  if (communicator.is_main_rank()) {
    log_changes(path, config_changes(saved.at("config").as_string(), now.config));
  }
  return std::move(chosen->checkpoint);
}

}  // namespace temper
