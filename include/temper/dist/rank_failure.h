#pragma once
// A failure of one rank alone as an error of all ranks.

#include <exception>
#include <string>

#include "temper/core/error.h"
#include "temper/dist/communicator.h"

namespace temper {

// The same text on all ranks: the rank that failed speaks of it, the others stopped with it.
class RankFailureError : public AgreedError {
 public:
  RankFailureError(const std::string& what, int rank, std::string phase, std::exception_ptr cause)
      : AgreedError(what), rank_(rank), phase_(std::move(phase)), cause_(std::move(cause)) {}

  [[nodiscard]] int rank() const { return rank_; }  // that failed
  // What was thrown there, and in which phase; null and empty on the other ranks.
  [[nodiscard]] const std::exception_ptr& cause() const { return cause_; }
  [[nodiscard]] const std::string& phase() const { return phase_; }

 private:
  int rank_;
  std::string phase_;
  std::exception_ptr cause_;
};

// What a rank that failed alone keeps until all know.
struct RankFailure {
  std::exception_ptr cause{};  // null: this rank did not fail
  std::string phase{};

  [[nodiscard]] explicit operator bool() const { return cause != nullptr; }
};

// To be called by all ranks once they know that at least one has failed; the lowest of them is
// reported. `where`, equal on all ranks, begins the message. Collectives.
[[noreturn]] void throw_rank_failure(Communicator& communicator, const RankFailure& failure,
                                     const std::string& where);

// The first line of an exception's text, with a hint for one that says nothing (std::bad_alloc).
[[nodiscard]] std::string failure_text(const std::exception& error);

}  // namespace temper
