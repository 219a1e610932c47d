// Prints what one call of Heartbeat::set costs, in nanoseconds: the fastest of several rounds.

#include "temper/launch/heartbeat.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>

int main() {
  constexpr int kRounds = 20;
  constexpr std::uint64_t kCalls = 200'000;
  temper::Heartbeat heartbeat;
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t call = 0; call < kCalls; ++call) {
      heartbeat.set("forward and backward", call);
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    fastest = std::min(fastest, time.count() / kCalls);
  }
  std::cout << fastest << std::endl;
}
