#pragma once
// Waiting for a server whose host may still be starting.

#include <chrono>
#include <cstdint>
#include <string>

namespace temper {

// Tries all addresses of the host in turn until one accepts a connection, and returns it in
// numbers. Logs a warning with what was tried after ten seconds; std::runtime_error with the same
// when the time is up.
[[nodiscard]] std::string wait_for_listener(const std::string& host, std::uint16_t port,
                                            std::chrono::milliseconds timeout);

}  // namespace temper
