#include "launch/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "temper/core/error.h"
#include "temper/core/units.h"

namespace temper {
namespace {

constexpr std::size_t kLastLines = 30;
constexpr int kReadsInARow = 16;  // per stream, so that a chatty rank does not hide the others
// Threads that write their stacks have finished when nothing comes any more, or at last.
constexpr std::chrono::milliseconds kStackQuiet{300};
constexpr std::chrono::seconds kStackTime{5};

// False when nothing is there now.
bool read_some(FileDescriptor& descriptor, LineSplitter& lines) {
  std::array<char, std::size_t{1} << 14> buffer;
  const ssize_t count = ::read(descriptor.get(), buffer.data(), buffer.size());
  if (count > 0) {
    lines.feed({buffer.data(), static_cast<std::size_t>(count)});
    return true;
  }
  if (count < 0 && errno == EINTR) {
    return true;
  }
  if (count == 0 || errno != EAGAIN) {
    descriptor.reset();
  }
  return false;
}

void read_stream(FileDescriptor& descriptor, LineSplitter& lines) {
  for (int i = 0; i < kReadsInARow && descriptor.is_open(); ++i) {
    if (!read_some(descriptor, lines)) {
      return;
    }
  }
}

void read_report(FailureSlot& slot, RankEnd& end) {
  if (slot.state.load(std::memory_order_acquire) != FailureSlot::kFull) {
    return;
  }
  end.reported = static_cast<FailureCategory>(slot.category);
  end.nanoseconds = slot.nanoseconds;
  end.message.assign(slot.message.data(), std::min<std::size_t>(slot.length, slot.message.size()));
}

bool asks_to_end(int signal) {
  constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGKILL};
  return std::ranges::find(kSignals, signal) != kSignals.end();
}

FileDescriptor open_log(const std::filesystem::path& directory, int rank) {
  if (directory.empty()) {
    return {};
  }
  const std::filesystem::path path = directory / concat("rank-", rank, ".log");
  FileDescriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log.is_open()) {
    throw_errno(concat("cannot open ", path.string()));
  }
  return log;
}

}  // namespace

struct Supervisor::Rank {
  explicit Rank(RankProcess started) : process(std::move(started)) {}

  RankProcess process;
  std::unique_ptr<LineSplitter> output;
  std::unique_ptr<LineSplitter> error;
  FileDescriptor log;
  std::deque<std::string> last_lines;
  std::uint64_t signals_sent = 0;  // bit n: signal n
  bool shows_stacks = false;       // its lines are for the log alone
  std::string hang{};              // why it is blamed for a hang
  bool ended = false;
  RankEnd end;
};

Supervisor::Supervisor(SupervisorOptions options, int signals, SharedPage& page, Console& console)
    : options_(std::move(options)), signals_(signals), page_(page), console_(console) {}

Supervisor::~Supervisor() {
  for (const auto& rank : ranks_) {
    if (!rank->ended) {
      ::kill(-rank->process.pid, SIGKILL);
      ::waitpid(rank->process.pid, nullptr, 0);
    }
  }
}

void Supervisor::add(RankProcess process) {
  ranks_.push_back(std::make_unique<Rank>(std::move(process)));
  Rank& rank = *ranks_.back();
  rank.end.rank = static_cast<int>(ranks_.size()) - 1;
  rank.end.pid = rank.process.pid;
  // So that one that never comes to its first beat can be found, too.
  page_.slot(rank.end.rank).beat.nanoseconds.store(monotonic_nanoseconds());
  const auto splitter = [this, &rank](ConsoleStream& stream) {
    return std::make_unique<LineSplitter>(
        [this, &rank, &stream](std::string_view text, LineEnd end) {
          show_line(rank, stream, text, end);
        });
  };
  rank.output = splitter(console_.output());
  rank.error = splitter(console_.error());
  rank.log = open_log(options_.log_directory, rank.end.rank);
}

std::vector<RankEnd> Supervisor::run() {
  while (!std::ranges::all_of(ranks_, [](const auto& rank) { return rank->ended; })) {
    wait_for_events();
    read_signals();
    for (const auto& rank : ranks_) {
      if (!rank->ended) {
        read_output(*rank);
      }
    }
    for (const auto& rank : ranks_) {
      if (!rank->ended) {
        reap(*rank);
      }
    }
    watch_for_hang();
    kill_if_due();
    console_.output().flush();
    console_.error().flush();
  }
  std::vector<RankEnd> ends;
  ends.reserve(ranks_.size());
  for (const auto& rank : ranks_) {
    ends.push_back(rank->end);
  }
  return ends;
}

void Supervisor::wait_for_events() {
  std::vector<pollfd> entries = {{signals_, POLLIN, 0}};
  for (const auto& rank : ranks_) {
    if (rank->ended) {
      continue;
    }
    for (const FileDescriptor* descriptor :
         {&rank->process.process, &rank->process.output, &rank->process.error}) {
      if (descriptor->is_open()) {
        entries.push_back({descriptor->get(), POLLIN, 0});
      }
    }
  }
  for (const ConsoleStream* stream : {&console_.output(), &console_.error()}) {
    if (stream->waiting()) {
      entries.push_back(stream->poll_entry());
    }
  }
  if (::poll(entries.data(), entries.size(), poll_timeout()) < 0 && errno != EINTR) {
    throw_errno("cannot watch the ranks");
  }
}

int Supervisor::poll_timeout() const {
  std::optional<Clock::time_point> next = kill_time_;
  const auto consider = [&](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
  if (stacks_end_) {
    consider(*stacks_end_);
  } else if (options_.hang_timeout && laggard_ == nullptr && !kill_time_) {
    consider(next_look_);
  }
  if (!next) {
    return -1;
  }
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 60'000));
}

void Supervisor::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_, &info, sizeof info) == sizeof info) {
    handle_signal(static_cast<int>(info.ssi_signo));
  }
}

void Supervisor::handle_signal(int received) {
  switch (received) {
    case SIGUSR2:
      console_.note("launcher: SIGUSR2: the ranks save and go on");
      break;
    case SIGQUIT:
      console_.note("launcher: SIGQUIT: the ranks write the stacks of their threads");
      break;
    default:
      ask_to_stop(received);
      return;
  }
  for (const auto& rank : ranks_) {
    send(*rank, received);
  }
}

void Supervisor::ask_to_stop(int received) {
  const int signal = received == SIGHUP ? SIGTERM : received;
  interrupts_ += signal == SIGINT ? 1 : 0;
  if (signal == SIGINT && interrupts_ == 2) {
    const bool saved = std::ranges::any_of(ranks_, [this](const auto& rank) {
      return page_.slot(rank->end.rank).failure.finished.load() == FailureSlot::kDone;
    });
    console_.note(concat("launcher: second Ctrl-C: all ranks are stopped at once, ",
                         saved ? "the checkpoint is saved" : "nothing is saved"));
    stop_ = {.signal = SIGINT, .at_once = true};
    kill_all();
    return;
  }
  // Schedulers repeat their signals; each kind goes to the ranks once, the first sets the time.
  if (stop_.signal == 0) {
    console_.note(concat("launcher: ", signal_name(received), ": the ranks save and stop, at most ",
                         to_text(options_.grace), "; a second Ctrl-C stops at once"));
    stop_.signal = signal;
    kill_after(options_.grace);
  } else if (stop_.signal == SIGUSR1) {
    stop_.signal = signal;
  }
  send_all(signal);
  send_all(SIGCONT);  // a rank that is stopped could not save
}

void Supervisor::read_output(Rank& rank) {
  read_stream(rank.process.output, *rank.output);
  read_stream(rank.process.error, *rank.error);
}

void Supervisor::show_line(Rank& rank, ConsoleStream& stream, std::string_view text, LineEnd end) {
  const bool progress = is_progress(text, end);
  if (!progress) {
    if (rank.shows_stacks) {
      stacks_end_ = std::min(stacks_limit_, Clock::now() + kStackQuiet);
    } else {
      rank.last_lines.emplace_back(text);
    }
    if (rank.last_lines.size() > kLastLines) {
      rank.last_lines.pop_front();
    }
    const std::string line = concat(text, "\n");
    if (rank.log.is_open() && ::write(rank.log.get(), line.data(), line.size()) < 0) {
      console_.note(concat("launcher: the log of rank ", rank.end.rank,
                           " ends here: ", SystemError("cannot write", errno).what()));
      rank.log.reset();
    }
  }
  if (rank.shows_stacks && rank.log.is_open()) {
    return;
  }
  if (rank.end.rank == 0) {
    console_.show(stream, text, end);
  } else if (!progress && is_warning_or_error(text)) {
    console_.note(concat("[", options_.host, ":", rank.end.rank, "] ", text));
  }
}

void Supervisor::reap(Rank& rank) {
  siginfo_t info{};
  const auto process = static_cast<id_t>(rank.process.process.get());
  if (::waitid(P_PIDFD, process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return;
  }
  rank.end.nanoseconds = monotonic_nanoseconds();
  // The unreaped rank still holds its group's number, so this reaches its own children alone.
  ::kill(-rank.process.pid, SIGKILL);
  rusage usage{};
  ::wait4(rank.process.pid, nullptr, 0, &usage);
  constexpr std::int64_t kKibi = 1024;
  rank.end.peak_memory = usage.ru_maxrss * kKibi;
  rank.ended = true;
  (info.si_code == CLD_EXITED ? rank.end.exit_code : rank.end.signal) = info.si_status;
  read_end(rank);
  after_end(rank.end);
}

void Supervisor::read_end(Rank& rank) {
  constexpr int kMostReads = 1024;  // a pipe that a stranger keeps filling
  for (int i = 0; i < kMostReads && rank.process.output.is_open(); ++i) {
    if (!read_some(rank.process.output, *rank.output)) {
      break;
    }
  }
  for (int i = 0; i < kMostReads && rank.process.error.is_open(); ++i) {
    if (!read_some(rank.process.error, *rank.error)) {
      break;
    }
  }
  rank.output->finish();
  rank.error->finish();
  RankSlot& slot = page_.slot(rank.end.rank);
  if (rank.hang.empty()) {
    rank.end.beat = read_beat(slot.beat);
    read_report(slot.failure, rank.end);
  } else {
    rank.end.reported = FailureCategory::kHang;
    rank.end.message = rank.hang;
    rank.end.nanoseconds = rank.end.beat.nanoseconds;
  }
  rank.end.loader_bytes = slot.beat.loader_bytes.load();
  const bool good =
      rank.end.signal == 0 && is_good_status(rank.end.exit_code) && !rank.end.reported;
  const std::uint32_t finished = slot.failure.finished.load();
  rank.end.left_early = good && finished == FailureSlot::kNot && rank.signals_sent == 0;
  rank.end.stopped_early = good && finished == FailureSlot::kStoppedEarly;
  rank.end.last_lines.assign(rank.last_lines.begin(), rank.last_lines.end());
  rank.end.ended_by_launcher = asks_to_end(rank.end.signal) && !rank.end.reported &&
                               ((rank.signals_sent >> rank.end.signal) & 1U) != 0;
}

void Supervisor::after_end(const RankEnd& end) {
  if (end.stopped_early) {
    stop_with(end);
    return;
  }
  if (end.signal == 0 && is_good_status(end.exit_code) && !end.reported && !end.left_early) {
    return;
  }
  announce(end);
  if (tearing_down_) {
    return;
  }
  tearing_down_ = true;
  if (std::ranges::all_of(ranks_, [](const auto& rank) { return rank->ended; })) {
    return;
  }
  if (end.ended_by_launcher) {
    // It was asked to stop before it could listen: the others would wait for it in vain.
    kill_after(options_.peer_grace);
    return;
  }
  const bool lost_peer = make_failure(end).category == FailureCategory::kLostPeer;
  console_.note(
      concat("launcher: rank ", end.rank, lost_peer ? " has lost another rank" : " has failed",
             ": the others are stopped, after ", to_text(options_.peer_grace), " by SIGKILL"));
  send_all(SIGTERM);
  kill_after(options_.peer_grace);
}

// The others would wait in vain for a rank that was asked to stop by itself.
void Supervisor::stop_with(const RankEnd& end) {
  if (stop_.signal != 0 || tearing_down_ ||
      std::ranges::all_of(ranks_, [](const auto& r) { return r->ended; })) {
    return;
  }
  console_.note(concat("launcher: rank ", end.rank,
                       " was asked to stop before there was anything to save: the others stop, "
                       "too, at most ",
                       to_text(options_.grace)));
  stop_.signal = end.exit_code == kStatusInterrupted ? SIGINT : SIGTERM;
  kill_after(options_.grace);
  send_all(stop_.signal);
  send_all(SIGCONT);
}

void Supervisor::announce(const RankEnd& end) {
  const Failure failure = make_failure(end);
  const bool cause = !end.ended_by_launcher && failure.category != FailureCategory::kLostPeer;
  if (cause && !announced_ && options_.announce_failure) {
    announced_ = true;
    options_.announce_failure(failure_line(failure, options_.host));
  }
}

std::vector<RankActivity> Supervisor::activities() const {
  std::vector<RankActivity> result;
  for (const auto& rank : ranks_) {
    if (!rank->ended) {
      RankSlot& slot = page_.slot(rank->end.rank);
      result.push_back({.rank = rank->end.rank,
                        .beat = read_beat(slot.beat),
                        .collective = slot.collective.read(),
                        .state = process_state(rank->process.pid)});
      Beat& beat = result.back().beat;
      beat.nanoseconds = std::max(beat.nanoseconds, awake_since_);
    }
  }
  return result;
}

void Supervisor::watch_for_hang() {
  if (stacks_end_) {
    if (Clock::now() >= *stacks_end_) {
      end_hang();
    }
    return;
  }
  // Ranks that are asked to stop have a time of their own; one rank is blamed, once.
  if (!options_.hang_timeout || laggard_ != nullptr || kill_time_ || Clock::now() < next_look_) {
    return;
  }
  constexpr std::chrono::milliseconds kOften{20};
  constexpr std::chrono::milliseconds kRarely{1000};
  // Who comes so late was suspended itself, and the ranks with it: their time begins anew.
  if (Clock::now() - next_look_ > std::max<Clock::duration>(kRarely, *options_.hang_timeout / 4)) {
    awake_since_ = monotonic_nanoseconds();
  }
  next_look_ = Clock::now() + std::clamp(*options_.hang_timeout / 10, kOften, kRarely);
  if (const auto hang = find_hang(activities(), monotonic_nanoseconds(), *options_.hang_timeout)) {
    begin_hang(*hang);
  }
}

// All show where they are: the laggard what keeps it, the others what they wait for.
void Supervisor::begin_hang(const Hang& hang) {
  laggard_ = ranks_[static_cast<std::size_t>(hang.rank)].get();
  laggard_->hang = hang.text;
  laggard_->end.beat = read_beat(page_.slot(hang.rank).beat);
  console_.note(concat("launcher: rank ", hang.rank, " hangs: ", hang.text,
                       options_.log_directory.empty() ? "" : "; all stacks go to the ranks' logs"));
  for (const auto& rank : ranks_) {
    rank->shows_stacks = true;
    send(*rank, SIGQUIT);
  }
  send_all(SIGCONT);
  stacks_limit_ = Clock::now() + kStackTime;
  stacks_end_ = stacks_limit_;
}

void Supervisor::end_hang() {
  stacks_end_.reset();
  for (const auto& rank : ranks_) {
    rank->shows_stacks = false;
  }
  send(*laggard_, SIGKILL);
}

void Supervisor::send(Rank& rank, int signal) {
  if (!rank.ended) {
    rank.signals_sent |= std::uint64_t{1} << signal;
    // The whole group only by force: a rank's own children are its own business.
    ::kill(signal == SIGKILL ? -rank.process.pid : rank.process.pid, signal);
  }
}

void Supervisor::send_all(int signal) {
  for (const auto& rank : ranks_) {
    if (((rank->signals_sent >> signal) & 1U) == 0) {
      send(*rank, signal);
    }
  }
}

void Supervisor::kill_after(std::chrono::milliseconds grace) {
  const Clock::time_point time = Clock::now() + grace;
  kill_time_ = kill_time_ ? std::min(*kill_time_, time) : time;
}

void Supervisor::kill_if_due() {
  if (!kill_time_ || Clock::now() < *kill_time_) {
    return;
  }
  std::vector<std::string> running;
  for (const auto& rank : ranks_) {
    if (!rank->ended) {
      running.push_back(concat(rank->end.rank));
    }
  }
  if (!running.empty()) {
    console_.note(
        concat("launcher: rank ", join(running, ", "), " did not stop in time and is killed"));
  }
  kill_all();
}

void Supervisor::kill_all() {
  kill_time_.reset();
  send_all(SIGCONT);
  send_all(SIGKILL);
}

}  // namespace temper
