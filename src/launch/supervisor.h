#pragma once
// Watches the ranks of one attempt until the last has ended: one thread, one poll loop.

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/failure_report.h"
#include "launch/hang_watch.h"
#include "launch/rank_output.h"
#include "launch/rank_process.h"
#include "launch/shared_page.h"

struct pollfd;

namespace temper {

struct SupervisorOptions {
  std::string host{};
  std::chrono::milliseconds grace{};
  std::chrono::milliseconds peer_grace{};
  std::optional<std::chrono::milliseconds> hang_timeout{};  // none: hangs are not looked for
  std::filesystem::path log_directory{};                    // empty: no logs
  // Called once, with the line of the report, when a rank has failed by a cause of its own and the
  // others have not been stopped yet.
  std::function<void(const std::string& line)> announce_failure{};
};

class Supervisor {
 public:
  // `signals` is a signalfd of the signals to act on. References must outlive the object.
  Supervisor(SupervisorOptions options, int signals, SharedPage& page, Console& console);
  // Kills what still runs.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // The next rank, from 0 on.
  void add(RankProcess process);
  // Returns the ends, one per rank.
  [[nodiscard]] std::vector<RankEnd> run();
  [[nodiscard]] const StopState& stop() const { return stop_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Rank;

  void wait_for_events();
  void read_signals();
  void handle_signal(int signal);
  void ask_to_stop(int signal);
  void read_output(Rank& rank);
  void show_line(Rank& rank, ConsoleStream& stream, std::string_view text, LineEnd end);
  void reap(Rank& rank);
  void read_end(Rank& rank);
  void after_end(const RankEnd& end);
  void stop_with(const RankEnd& end);
  void announce(const RankEnd& end);
  void watch_for_hang();
  void begin_hang(const Hang& hang);
  void end_hang();
  [[nodiscard]] std::vector<RankActivity> activities() const;
  void send(Rank& rank, int signal);
  void send_all(int signal);
  void kill_after(std::chrono::milliseconds grace);
  void kill_if_due();
  void kill_all();
  [[nodiscard]] int poll_timeout() const;

  SupervisorOptions options_;
  int signals_;
  SharedPage& page_;
  Console& console_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  StopState stop_;
  bool tearing_down_ = false;
  int interrupts_ = 0;
  bool announced_ = false;
  std::optional<Clock::time_point> kill_time_;
  // The rank that is blamed for a hang, while its stacks are written and until it has ended.
  Rank* laggard_ = nullptr;
  std::optional<Clock::time_point> stacks_end_;
  Clock::time_point stacks_limit_;
  Clock::time_point next_look_ = Clock::now();
  std::int64_t awake_since_ = 0;  // CLOCK_MONOTONIC; see watch_for_hang
};

}  // namespace temper
