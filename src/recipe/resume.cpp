#include "recipe/resume.h"

#include <algorithm>

#include "temper/checkpoint/checksum.h"
#include "temper/checkpoint/container.h"
#include "temper/checkpoint/newest.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/dist/agree.h"

namespace temper {
namespace {

using Kind = ResumePolicy::Kind;

std::int64_t update_of(const Value& checkpoint) {
  return checkpoint.as_dict().at("progress").as_dict().at("update").as_int();
}

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
    Value checkpoint = read_checkpoint(path);
    check_entries(path, checkpoint);
    return checkpoint;
  } catch (const DataError& error) {
    throw refuse(error);
  } catch (const SystemError& error) {
    throw refuse(error);
  }
}

ResumePolicy policy_of_attempt(const ResumePolicy& asked,
                               const std::filesystem::path& run_directory,
                               const LaunchIdentity& identity, int requeues) {
  const std::filesystem::path folder = run_directory / "checkpoints";
  std::error_code ignored;  // no folder: nothing was saved
  const bool saved = !run_directory.empty() && std::filesystem::is_directory(folder, ignored) &&
                     !std::filesystem::is_empty(folder, ignored);
  return saved && is_restart_of(run_directory / "run.json", identity, requeues) ? ResumePolicy{}
                                                                                : asked;
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
    return newest_valid_checkpoint(folder, check_entries);
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

std::string resume_text(const ResumePolicy& policy, const std::filesystem::path& run_directory) {
  std::optional<ChosenCheckpoint> chosen;
  std::string text;
  if (policy.kind == Kind::kFile || !run_directory.empty()) {
    std::vector<RejectedFile> rejected;
    try {
      chosen = choose_checkpoint(policy, run_directory / "checkpoints", &rejected);
    } catch (const ConfigError& error) {
      return concat("resume: not possible now: ", error.what(), "\n");
    }
    for (const RejectedFile& file : rejected) {
      text += concat("resume: ", file.path.string(), " is not used: ", file.reason, "\n");
    }
  }
  return text +
         (chosen ? concat("resume: from update ", update_of(chosen->checkpoint), ", ", chosen->path)
                 : std::string("resume: starts anew")) +
         "\n";
}

namespace {

// The main rank's part of find_checkpoint; `error` gets what stops the run, `checksum` that of the
// file.
std::optional<ChosenCheckpoint> choose_and_check(const ResumePolicy& policy,
                                                 const std::filesystem::path& folder,
                                                 const ResumeKey& now,
                                                 const std::vector<std::string>& allowed,
                                                 std::string& error, std::string& checksum) {
  std::optional<ChosenCheckpoint> chosen;
  std::vector<RejectedFile> rejected;
  try {
    chosen = choose_checkpoint(policy, folder, &rejected);
    if (chosen) {
      check_resume(chosen->path, chosen->checkpoint, now, allowed);
      checksum = concat(checkpoint_checksum(chosen->path));
    }
  } catch (const std::exception& refusal) {  // the other ranks wait for what becomes of this
    error = refusal.what();
  }
  for (const RejectedFile& file : rejected) {
    log_warning("checkpoint ", file.path.string(), " is not used: ", file.reason);
  }
  return chosen;
}

// On every rank but the main one, which has read the file with this checksum. An empty text or what
// is wrong.
std::string read_same(const std::string& path, const std::string& checksum,
                      std::optional<Value>& out) {
  try {
    if (concat(checkpoint_checksum(path)) != checksum) {
      return concat(path,
                    " is another file here than for rank 0: the run directory must be the same "
                    "folder on all hosts");
    }
    out = read_checkpoint(path);
    return "";
  } catch (const std::exception& error) {
    return concat("cannot read the checkpoint that rank 0 goes on from: ", error.what());
  }
}

// Another method starts without a state, and cannot go back to one of before.
void drop_method_state(Value& checkpoint, bool is_main) {
  ValueDict& saved = checkpoint.as_dict();
  if (is_main && !saved.at("method").as_dict().empty()) {
    log_warning("what the checkpoint holds of the other method's state is left out");
  }
  saved["method"] = ValueDict();
  saved["roll_back_to"] = ValueDict();
}

}  // namespace

std::optional<Value> find_checkpoint(const ResumePolicy& policy,
                                     const std::filesystem::path& folder,
                                     Communicator& communicator, ResumeKey& now,
                                     const std::vector<std::string>& allowed) {
  std::optional<ChosenCheckpoint> chosen;
  std::string error;
  std::string checksum;
  const bool is_main = communicator.is_main_rank();
  if (is_main) {
    chosen = choose_and_check(policy, folder, now, allowed, error, checksum);
  }
  const PurposeScope scope(communicator, "choice of the checkpoint");
  error = broadcast_text(communicator, error);
  if (!error.empty()) {  // on all ranks, which would else wait for the path; the main rank says it
    is_main ? throw ConfigError(error) : throw AgreedError(error);
  }
  const std::string path = broadcast_text(communicator, chosen ? chosen->path : "");
  if (path.empty()) {
    return std::nullopt;
  }
  checksum = broadcast_text(communicator, checksum);
  std::optional<Value> checkpoint;
  if (is_main) {
    checkpoint = std::move(chosen->checkpoint);
  } else {
    error = read_same(path, checksum, checkpoint);
  }
  throw_if_any_failed(communicator, error);
  const ValueDict& saved = checkpoint->as_dict();
  now.compute_threads = saved.at("compute_threads").as_int();
  const auto changes = config_changes(saved.at("config").as_string(), now.config);
  if (is_main) {
    log_changes(path, changes);
  }
  if (std::ranges::find(changes, "method.name", &ConfigChange::key) != changes.end()) {
    drop_method_state(*checkpoint, is_main);
  }
  return checkpoint;
}

}  // namespace temper
