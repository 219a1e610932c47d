#include "launch/failure_report.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "launch/memory_watch.h"
#include "temper/core/text.h"

namespace temper {
namespace {

bool is_crash(int signal) {
  constexpr std::array kCrashes = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};
  return std::ranges::find(kCrashes, signal) != kCrashes.end();
}

bool ended_well(const RankEnd& end) {
  return end.signal == 0 && is_good_status(end.exit_code) && !end.reported;
}

bool failed(const RankEnd& end) {
  return !end.ended_by_launcher && (end.left_early || !ended_well(end));
}

std::string error_text(const RankEnd& end) {
  if (end.reported) {
    return end.message;
  }
  if (end.signal != 0) {
    return concat("killed by ", signal_name(end.signal), " (signal ", end.signal, ")");
  }
  if (ended_well(end)) {
    return concat("ended with status ", end.exit_code, " while others still needed it");
  }
  return concat("ended with status ", end.exit_code, " and without a message");
}

const RankEnd* earliest(const std::vector<RankEnd>& ends, auto counts) {
  const RankEnd* best = nullptr;
  for (const RankEnd& end : ends) {
    if (counts(end) && (best == nullptr || end.nanoseconds < best->nanoseconds)) {
      best = &end;
    }
  }
  return best;
}

const RankEnd* find_cause(const std::vector<RankEnd>& ends) {
  const auto lost_peer = [](const RankEnd& end) {
    return failed(end) && category_of(end) == FailureCategory::kLostPeer;
  };
  const auto real = [&](const RankEnd& end) { return failed(end) && !lost_peer(end); };
  if (const RankEnd* cause = earliest(ends, real)) {
    return cause;
  }
  const RankEnd* victim = earliest(ends, lost_peer);
  if (victim == nullptr) {
    return nullptr;
  }
  const RankEnd* leaver = earliest(ends, [&](const RankEnd& end) {
    return ended_well(end) && end.nanoseconds < victim->nanoseconds;
  });
  return leaver != nullptr ? leaver : victim;
}

int failure_status(const RankEnd& cause) {
  const bool hang = cause.reported == FailureCategory::kHang;  // then ended by the launcher
  if (cause.signal != 0 && !hang) {
    return 128 + cause.signal;
  }
  return cause.exit_code == kStatusConfig ? kStatusConfig : kStatusFailed;
}

int peaceful_status(const std::vector<RankEnd>& ends, const StopState& stop) {
  const auto any = [&](auto counts) { return std::ranges::any_of(ends, counts); };
  if (stop.at_once) {
    return kStatusInterrupted;
  }
  if (any([](const RankEnd& end) { return end.ended_by_launcher; })) {
    return stop.signal == SIGINT ? kStatusInterrupted : kStatusTerminated;
  }
  for (const int status :
       {kStatusInterrupted, kStatusTerminated, kStatusTimeBudget, kStatusCheckpointed}) {
    if (any([&](const RankEnd& end) { return end.exit_code == status; })) {
      return status;
    }
  }
  return 0;
}

std::string place_of(const RankEnd& end, const std::string& host) {
  return concat("rank ", end.rank, " (pid ", end.pid, ", host ", host, ")");
}

std::string beat_text(const RankEnd& end) {
  return concat(" in phase ", end.beat.phase, " at update ", end.beat.update);
}

std::string victim_line(const RankEnd& end) {
  const std::string how =
      end.ended_by_launcher
          ? concat("stopped by the launcher (", signal_name(end.signal), ")")
          : concat(category_name(category_of(end)), ": ", make_failure(end).error);
  return concat("  then rank ", end.rank, " (pid ", end.pid, "): ", how, beat_text(end));
}

std::string_view advice(const Failure& failure) {
  switch (failure.category) {
    case FailureCategory::kConfig:
      return "correct the configuration; nothing else is wrong";
    case FailureCategory::kData:
      return "look at the named file with `datatool verify`";
    case FailureCategory::kMemory:
      return "lower the batch size, data.workers or data.memory_limit, or start fewer processes";
    case FailureCategory::kSystem:
      return "the system refused something: the reason is in the error; --max-restarts starts "
             "again "
             "from the last checkpoint";
    case FailureCategory::kHang:
      return "the logs of the ranks hold the stacks of their threads at that moment; a data set on "
             "a "
             "file server that does not answer looks like this, too";
    case FailureCategory::kLostPeer:
      return "no rank reported a cause of its own: look at the network and at the logs of all "
             "ranks";
    case FailureCategory::kCrashSignal:
      return "a crash inside the program: the last lines may say where; `ulimit -c unlimited` "
             "keeps a core file";
    case FailureCategory::kKilledFromOutside:
      return failure.end.signal == SIGKILL
                 ? "the same command goes on from the last checkpoint; if memory is short, a "
                   "smaller "
                   "batch or data.memory_limit helps"
                 : "the signal was not sent by the launcher: a scheduler or a user";
    case FailureCategory::kException:
    case FailureCategory::kExit:
      break;
  }
  return "the log of this rank holds what came before";
}

nlohmann::json end_json(const RankEnd& end) {
  nlohmann::json json;
  json["rank"] = end.rank;
  json["pid"] = end.pid;
  json["phase"] = end.beat.phase;
  json["update"] = end.beat.update;
  const bool hang = end.reported == FailureCategory::kHang;  // the signal is the launcher's
  json["exit_code"] = end.signal == 0 && !hang ? nlohmann::json(end.exit_code) : nlohmann::json();
  json["signal"] = nlohmann::json();
  if (end.signal != 0 && !hang) {
    json["signal"] = {{"name", signal_name(end.signal)}, {"number", end.signal}};
  }
  json["error"] = error_text(end);
  json["peak_memory_bytes"] = end.peak_memory;
  json["loader_bytes"] = end.loader_bytes;
  return json;
}

// "rank 0 peak 220 MiB, its loader up to 12 MiB; rank 1 ..."
std::string memory_text(const Verdict& verdict) {
  std::vector<RankEnd> ends = verdict.victims;
  ends.push_back(verdict.cause->end);
  std::ranges::sort(ends, {}, &RankEnd::rank);
  std::vector<std::string> parts;
  for (const RankEnd& end : ends) {
    parts.push_back(concat("rank ", end.rank, " peak ", bytes_text(end.peak_memory)));
    if (end.loader_bytes > 0) {
      parts.back() += concat(", its loader up to ", bytes_text(end.loader_bytes));
    }
  }
  return join(parts, "; ");
}

bool concerns_memory(const Failure& cause) {
  return cause.category == FailureCategory::kMemory || !cause.end.kill_verdict.empty();
}

}  // namespace

bool is_good_status(int exit_code) {
  constexpr std::array kGood = {0, kStatusCheckpointed, kStatusTimeBudget, kStatusInterrupted,
                                kStatusTerminated};
  return std::ranges::find(kGood, exit_code) != kGood.end();
}

FailureCategory category_of(const RankEnd& end) {
  if (end.reported) {
    return *end.reported;
  }
  if (end.out_of_memory) {
    return FailureCategory::kMemory;
  }
  if (end.signal != 0) {
    return is_crash(end.signal) ? FailureCategory::kCrashSignal
                                : FailureCategory::kKilledFromOutside;
  }
  return end.exit_code == kStatusConfig ? FailureCategory::kConfig : FailureCategory::kExit;
}

Failure make_failure(const RankEnd& end) {
  Failure failure{.end = end, .category = category_of(end), .error = error_text(end)};
  failure.error = failure.error.substr(0, failure.error.find('\n'));
  return failure;
}

bool can_go_away(const Failure& failure) {
  switch (failure.category) {
    case FailureCategory::kSystem:
    case FailureCategory::kLostPeer:
    case FailureCategory::kHang:
    case FailureCategory::kCrashSignal:
    case FailureCategory::kKilledFromOutside:
    case FailureCategory::kExit:
      return true;
    case FailureCategory::kMemory:
      return failure.end.out_of_memory;  // another process may have taken it
    case FailureCategory::kConfig:
    case FailureCategory::kData:
    case FailureCategory::kException:
      break;
  }
  return false;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? concat("signal ", signal) : concat("SIG", name);
}

Verdict judge(const std::vector<RankEnd>& ends, const StopState& stop) {
  Verdict verdict;
  const RankEnd* cause = find_cause(ends);
  // Ranks that are killed one after the other see each other vanish.
  if (cause == nullptr || (stop.at_once && category_of(*cause) == FailureCategory::kLostPeer)) {
    verdict.status = peaceful_status(ends, stop);
    return verdict;
  }
  verdict.status = failure_status(*cause);
  verdict.cause = make_failure(*cause);
  for (const RankEnd& end : ends) {
    if (&end != cause && (end.left_early || !ended_well(end))) {
      verdict.victims.push_back(end);
    }
  }
  std::ranges::stable_sort(verdict.victims, {}, &RankEnd::nanoseconds);
  return verdict;
}

std::string failure_line(const Failure& failure, const std::string& host) {
  const std::string what = failure.end.signal != 0 && !failure.end.reported
                               ? failure.error
                               : concat("failed: ", failure.error);
  return concat(place_of(failure.end, host), " ", what, beat_text(failure.end));
}

std::string failure_text(const Verdict& verdict, const ReportPlace& place) {
  const Failure& cause = *verdict.cause;
  std::string text = concat(failure_line(cause, place.host), "\n");
  const std::string& message = cause.end.message;
  if (const std::size_t end = message.find('\n'); end != std::string::npos) {
    text += concat(trim(std::string_view(message).substr(end)), "\n");
  }
  if (!cause.end.kill_verdict.empty()) {
    text += concat("verdict: ", cause.end.kill_verdict, "\n");
  }
  if (concerns_memory(cause)) {
    text += concat("memory: ", memory_text(verdict), "\n");
  }
  for (const RankEnd& victim : verdict.victims) {
    text += concat(victim_line(victim), "\n");
  }
  if (!cause.end.last_lines.empty()) {
    text += concat("last lines of rank ", cause.end.rank, ":\n");
    for (const std::string& line : cause.end.last_lines) {
      text += concat("  | ", line, "\n");
    }
  }
  text += concat("advice: ", advice(cause), "\n");
  if (!place.run_directory.empty()) {
    text += concat("report: ", (place.run_directory / "failure.json").string(),
                   ", logs: ", place.log_directory.string(), "\n");
  }
  return text;
}

std::string failure_json(const Verdict& verdict, const ReportPlace& place) {
  const Failure& cause = *verdict.cause;
  nlohmann::json json = end_json(cause.end);
  json["category"] = category_name(cause.category);
  json["host"] = place.host;
  json["status"] = verdict.status;
  json["attempt"] = place.attempt;
  json["line"] = failure_line(cause, place.host);
  json["last_lines"] = cause.end.last_lines;
  if (!cause.end.kill_verdict.empty()) {
    json["verdict"] = cause.end.kill_verdict;
  }
  json["advice"] = advice(cause);
  json["victims"] = nlohmann::json::array();
  for (const RankEnd& victim : verdict.victims) {
    nlohmann::json entry = end_json(victim);
    entry["category"] =
        victim.ended_by_launcher ? "stopped by launcher" : category_name(category_of(victim));
    json["victims"].push_back(entry);
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace temper
