#pragma once
// The checkpoints of a run: last.pt, best.pt and epoch-0007.pt. One process writes; any may read.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "temper/checkpoint/value.h"

namespace temper {

struct RejectedFile {
  std::filesystem::path path;
  std::string reason;
};

struct NewestCheckpoint {
  std::optional<Value> checkpoint;     // empty when no file is valid
  std::filesystem::path path;          // of the checkpoint
  std::vector<RejectedFile> rejected;  // newer files that were passed over
};

// Which names besides last.pt a checkpoint gets.
struct CheckpointNames {
  std::optional<int> epoch;  // epoch-NNNN.pt
  bool best = false;         // best.pt
};

class CheckpointDirectory {
 public:
  // `keep`: how many epoch files stay; 0 writes none. `spared`: one more file that stays, the one
  // that the run was told to go on from; empty: none. The folder is made by save.
  CheckpointDirectory(std::filesystem::path path, int keep, std::filesystem::path spared = {});

  // Writes each file in one step, as a copy and no link, last.pt at the end: whatever ends the
  // process, last.pt is whole, the old one or the new one, and the others are not behind it. Throws
  // SystemError, for a full disk with the space needed; the files of earlier saves are then intact.
  // With an epoch file it removes old ones when all is written: first those of later epochs, which
  // are damaged or of a course that the run has left, then the oldest; never the one just written.
  void save(const Value& checkpoint, const CheckpointNames& names = {}) const;

  // last.pt when it is valid and no file written after it has more progress, else the valid file
  // with the most (`progress.samples`, then the epoch of the name). Never throws for a damaged
  // file: it is listed in `rejected`.
  [[nodiscard]] NewestCheckpoint newest_valid() const;

  [[nodiscard]] std::filesystem::path last() const { return path_ / "last.pt"; }
  [[nodiscard]] std::filesystem::path best() const { return path_ / "best.pt"; }
  [[nodiscard]] std::filesystem::path epoch(int epoch) const;

 private:
  void remove_old_epochs(int saved) const;

  std::filesystem::path path_;
  int keep_;
  std::filesystem::path spared_;
};

}  // namespace temper
