#include "temper/dist/rank_failure.h"

#include <ATen/ops/full.h>
#include <unistd.h>

#include <array>
#include <new>

#include "temper/core/text.h"

namespace temper {
namespace {

std::string own_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

// "rank 1 on host n2 failed in phase data: ..."
std::string describe(const Communicator& communicator, const RankFailure& failure) {
  try {
    std::rethrow_exception(failure.cause);
  } catch (const std::exception& error) {
    return concat("rank ", communicator.rank(), " on host ", own_host(), " failed in phase ",
                  failure.phase, ": ", failure_text(error));
  }
}

}  // namespace

std::string failure_text(const std::exception& error) {
  const std::string_view text = error.what();
  const std::string line(text.substr(0, text.find('\n')));
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr
             ? concat("out of memory (", line,
                      "); lower the batch size or the loader's memory, or "
                      "run fewer processes on this host")
             : line;
}

void throw_rank_failure(Communicator& communicator, const RankFailure& failure,
                        const std::string& where) {
  const PurposeScope scope(communicator, "the failure of a rank");
  const int world_size = communicator.world_size();
  at::Tensor lowest = at::full({1}, failure ? world_size - communicator.rank() : 0, at::kLong);
  communicator.all_reduce_max(lowest);
  const int rank = world_size - static_cast<int>(lowest.item<std::int64_t>());
  require(rank < world_size, where, ": no rank has failed");
  const bool own = rank == communicator.rank();
  const std::string text =
      broadcast_text(communicator, own ? describe(communicator, failure) : "", rank);
  throw RankFailureError(concat(where, ": ", text, "; all ranks stop"), rank,
                         own ? failure.phase : "", own ? failure.cause : nullptr);
}

}  // namespace temper
