#pragma once
// write_checkpoint with a look inside, for tests that interrupt it.

#include <cstdint>
#include <filesystem>
#include <functional>

#include "temper/checkpoint/value.h"

namespace temper {

// `after_write` may be empty; else it is called after each piece with the bytes written so far.
void write_checkpoint_observed(const std::filesystem::path& path, const Value& value,
                               const std::function<void(std::uint64_t written)>& after_write);

}  // namespace temper
