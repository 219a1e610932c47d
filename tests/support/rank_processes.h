#pragma once
// Runs a test case as real processes: the test program starts itself once a rank, or forks, every
// rank connects to a store that the parent hosts, and the parent waits with a hard limit, kills
// what is left and reports each rank.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "temper/dist/collective_log.h"
#include "temper/dist/communicator.h"
#include "temper/dist/store.h"

namespace temper::testing_support {

struct RankWorld {
  int rank = 0;
  int world_size = 1;
  Store& store;
  Communicator& communicator;
  const CollectiveLog& collectives;  // of the communicator
};

// A case fails by throwing; each rank runs it.
using RankCase = std::function<void(RankWorld&)>;
using RankCases = std::map<std::string, RankCase>;

struct RankResult {
  int status = 0;  // exit status, or 128 + signal
  std::string output;
};

// Starts the case in `world_size` processes of this program.
[[nodiscard]] std::vector<RankResult> run_ranks(
    const std::string& name, int world_size, std::chrono::seconds limit = std::chrono::seconds(60));

// Expects that every rank ended with status 0; prints the output of one that did not.
void expect_ranks_pass(const std::string& name, int world_size);

// For main: ranks are forks of this process, not new starts of the program, which take a third of a
// second each to load LibTorch. The process must hold no CUDA context. `cases` must outlive it.
void fork_ranks(const RankCases& cases);

// For main: runs the case when this process is a rank and returns its exit status, otherwise -1.
// With NCCL each rank has the GPU of its number.
[[nodiscard]] int run_as_rank(const RankCases& cases, Backend backend = Backend::kGloo);

}  // namespace temper::testing_support
