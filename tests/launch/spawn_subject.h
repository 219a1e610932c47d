#pragma once
// The program under test: a launcher with ranks that behave as a scenario says.

namespace temper {

// arguments: --subject RUN_DIRECTORY PROCESSES GRACE_MS PEER_GRACE_MS SCENARIO
int run_subject(int argc, char** argv);

}  // namespace temper
