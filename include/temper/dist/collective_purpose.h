#pragma once
// What a rank says about its collectives beyond kind and size: two of equal shape are told apart by
// it, in error messages, in what supervision shows, and by the check of collectives.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace temper {

// Written by the thread that issues collectives. No allocation.
struct CollectivePurpose {
  static constexpr std::int64_t kNoNumber = -1;
  static constexpr std::size_t kPhaseLength = 31;

  std::array<char, kPhaseLength + 1> phase{};  // as the heartbeat's, cut
  std::int64_t update = 0;
  const char* text = "";            // a literal
  std::int64_t number = kNoNumber;  // of the next collective of this purpose

  void set_phase(std::string_view name) {
    phase.fill('\0');
    std::copy_n(name.begin(), std::min(name.size(), kPhaseLength), phase.begin());
  }
};

}  // namespace temper
