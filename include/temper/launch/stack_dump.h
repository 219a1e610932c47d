#pragma once
// The stacks of all threads of this process on its standard error: a rank's answer to its launcher,
// and to a user's `kill -QUIT PID`.

namespace temper {

// From now on SIGQUIT makes every thread that does not block it write its stack; the process goes
// on. Threads that block other signals must leave this one open. Call once, from the main thread.
void answer_stack_requests();

// Asks for it from inside; returns when the threads have written or after about a second.
void write_all_stacks();

}  // namespace temper
