#include "launch/hang_watch.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "temper/core/text.h"

namespace temper {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

bool is_stopped(const RankActivity& rank) {
  return rank.state == 'T' || rank.state == 't' || rank.state == kUnheardState;
}

std::string_view stopped_text(const RankActivity& rank) {
  return rank.state == kUnheardState ? "not heard from (stopped, or its host is down)"
                                     : "stopped by a signal (state T)";
}

std::string seconds_text(std::int64_t nanoseconds) {
  return concat(fixed(static_cast<double>(nanoseconds) / 1e9, 1), " s");
}

// "; rank 0, 2 wait in #41 all_reduce_sum float64 x 42"
std::string waiting_text(const std::vector<RankActivity>& ranks, int laggard) {
  std::map<std::string, std::vector<std::string>> groups;
  for (const RankActivity& rank : ranks) {
    if (rank.rank != laggard && rank.collective.is_inside()) {
      groups[to_string(rank.collective)].push_back(std::to_string(rank.rank));
    }
  }
  std::string text;
  for (const auto& [collective, members] : groups) {
    text += concat("; rank ", join(members, ", "), members.size() == 1 ? " waits" : " wait", " in ",
                   collective);
  }
  return text;
}

const RankActivity* oldest(const std::vector<RankActivity>& ranks, auto counts) {
  const RankActivity* found = nullptr;
  for (const RankActivity& rank : ranks) {
    if (counts(rank) && (found == nullptr || rank.beat.nanoseconds < found->beat.nanoseconds)) {
      found = &rank;
    }
  }
  return found;
}

std::string missed_text(const std::vector<RankActivity>& ranks, const RankActivity& laggard,
                        std::uint64_t most) {
  const CollectiveState& own = laggard.collective;
  if (own.begun == most) {
    return concat("all ranks wait in collective ", to_string(own),
                  ": the network between them may be down");
  }
  return concat("has begun ", own.begun, " collectives, others ", most,
                ": it left one out and waits in ", to_string(own),
                waiting_text(ranks, laggard.rank));
}

// Of /proc/PID/stat; the name may hold anything, so they are counted from its end.
std::vector<std::string> fields_behind_name(int pid) {
  std::ifstream file(concat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size()
             ? std::vector<std::string>()
             : split(line.substr(name_end + 2), ' ');
}

}  // namespace

std::optional<Hang> find_hang(const std::vector<RankActivity>& ranks, std::int64_t now,
                              std::chrono::milliseconds timeout) {
  const auto age = [&](const RankActivity& rank) { return now - rank.beat.nanoseconds; };
  const auto stands = [&](const RankActivity& rank) {
    return rank.beat.nanoseconds > 0 && age(rank) > timeout.count() * kMillisecond;
  };
  if (const RankActivity* rank =
          oldest(ranks, [&](const RankActivity& r) { return stands(r) && is_stopped(r); })) {
    return Hang{rank->rank, true,
                concat(stopped_text(*rank), ", no progress for ", seconds_text(age(*rank)),
                       waiting_text(ranks, rank->rank))};
  }
  if (const RankActivity* rank = oldest(
          ranks, [&](const RankActivity& r) { return stands(r) && !r.collective.is_inside(); })) {
    return Hang{
        rank->rank, false,
        concat("no progress for ", seconds_text(age(*rank)), waiting_text(ranks, rank->rank))};
  }
  if (ranks.size() < 2 || !std::ranges::all_of(ranks, stands)) {
    return std::nullopt;
  }
  const auto begun = [](const RankActivity& rank) { return rank.collective.begun; };
  const auto [fewest, most] = std::ranges::minmax_element(ranks, {}, begun);
  return Hang{fewest->rank, false, missed_text(ranks, *fewest, begun(*most))};
}

char process_state(int pid) {
  const std::vector<std::string> fields = fields_behind_name(pid);
  return fields.empty() || fields[0].empty() ? '?' : fields[0][0];
}

int parent_of(int pid) {
  const std::vector<std::string> fields = fields_behind_name(pid);
  return fields.size() < 2 ? 0 : std::atoi(fields[1].c_str());
}

}  // namespace temper
