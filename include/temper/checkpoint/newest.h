#pragma once
// Which checkpoint of a folder a run goes on from.

#include <filesystem>
#include <functional>

#include "temper/checkpoint/directory.h"
#include "temper/checkpoint/value.h"

namespace temper {

using CheckpointCheck = std::function<void(const std::filesystem::path&, const Value&)>;

// As CheckpointDirectory::newest_valid, where a file that `check` refuses with a DataError is
// passed over like a damaged one. Other errors of `check` are passed on.
[[nodiscard]] NewestCheckpoint newest_valid_checkpoint(const std::filesystem::path& folder,
                                                       const CheckpointCheck& check);

}  // namespace temper
