#pragma once
// The threads of a loader, as the system sees them.

#include <functional>
#include <thread>

namespace temper {

// Starts a thread of lower priority (nice +5) than this one. Signals are the main thread's
// business: it blocks all of them, but for the one that asks for its stack. Throws
// std::system_error when the system has no thread left.
[[nodiscard]] std::thread start_loader_thread(const char* name, std::function<void()> work);

}  // namespace temper
