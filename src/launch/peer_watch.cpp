#include "temper/launch/peer_watch.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "launch/failure_report.h"
#include "launch/hang_watch.h"
#include "launch/rank_report.h"
#include "launch/shared_page.h"
#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/launch/stack_dump.h"
#include "temper/launch/worker.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kFailureCount = "failure count";
constexpr const char* kFailure = "failure";
constexpr const char* kFailedRank = "failed rank";  // of a hang
constexpr const char* kEnded = "watches ended";

std::string beat_key(int rank) { return concat("beat/", rank); }

bool has(Store& store, const std::string& key) {
  const std::array keys = {key};
  return store.check(keys);
}

std::string to_text(const Beat& beat, const CollectiveState& collective, const std::string& host,
                    std::int64_t number) {
  return nlohmann::json{{"number", number},
                        {"host", host},
                        {"pid", ::getpid()},
                        {"phase", beat.phase},
                        {"update", beat.update},
                        {"age", monotonic_nanoseconds() - beat.nanoseconds},
                        {"begun", collective.begun},
                        {"ended", collective.ended},
                        {"kind", collective.kind},
                        {"numel", collective.numel},
                        {"purpose", collective.purpose}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// What is known of another rank.
struct Peer {
  std::int64_t number = -1;  // of its last message
  std::int64_t heard = 0;    // when that came, by this process's clock
  std::string host{};
  int pid = 0;
  RankActivity activity{};
};

}  // namespace

void announce_peer_failure(Store& store, const std::string& line) noexcept {
  try {
    if (store.add(kFailureCount, 1) == 1) {
      store.set(kFailure, line);
    }
  } catch (const std::exception& error) {
    log_debug("the others could not be told of the failure: ", error.what());
  }
}

std::optional<std::string> peer_failure(Store& store, milliseconds wait) noexcept {
  try {
    const std::array<std::string, 1> keys = {kFailure};
    return store.wait(keys, wait) ? std::optional(store.get(kFailure)) : std::nullopt;
  } catch (const std::exception& error) {
    log_debug("the store could not be asked for a failure: ", error.what());
    return std::nullopt;
  }
}

class PeerWatch::Thread {
 public:
  Thread(const PeerWatchOptions& options, Heartbeat& heartbeat)
      : options_(options),
        heartbeat_(heartbeat),
        store_(Store::connect(options.address, options.port, kStoreTime)),
        peers_(static_cast<std::size_t>(options.world_size)) {
    if (!options.attempt.empty()) {
      store_.enter(options.attempt);
    }
    thread_ = std::thread([this] { watch(); });
    deadman_ = std::thread([this] { watch_the_store(); });
    ::pthread_setname_np(thread_.native_handle(), "temper-peers");
    ::pthread_setname_np(deadman_.native_handle(), "temper-store");
  }

  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
    deadman_.join();
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

 private:
  static constexpr std::chrono::seconds kStoreTime{30};

  // False when the object ends.
  bool pause(milliseconds time) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, time, [this] { return stopping_; });
  }

  // A store that does not answer blocks the other thread, and the rank soon waits in a collective
  // for its host.
  void watch_the_store() {
    constexpr milliseconds kInterval{200};
    constexpr std::int64_t kLate = 2'000'000'000;
    for (std::int64_t before = monotonic_nanoseconds(); pause(kInterval);
         before = monotonic_nanoseconds()) {
      if (monotonic_nanoseconds() - before > kLate) {  // this process was suspended itself
        answered_.store(monotonic_nanoseconds());
        awake_since_.store(monotonic_nanoseconds());
      }
      const std::int64_t silence = monotonic_nanoseconds() - answered_.load();
      if (watching_.load() && silence > 2 * options_.hang_timeout.count() * 1'000'000) {
        const std::string text = concat("the store at ", options_.address, ":", options_.port,
                                        " has not answered for ", silence / 1'000'000'000,
                                        " s: the process that hosts it is stopped, or its host is "
                                        "down");
        log_error(text);
        report_failure(heartbeat_, FailureCategory::kLostPeer, text);
        ::_exit(1);
      }
    }
  }

  // The store ends with its host. Then nothing is left to watch here, and who still needs the host
  // sees its connection break.
  void watch() {
    constexpr milliseconds kOften{20};
    constexpr milliseconds kRarely{1000};
    const milliseconds interval = std::clamp(options_.hang_timeout / 10, kOften, kRarely);
    try {
      do {
        publish();
        if (has(store_, kFailure)) {
          end_after_failure();
          return;
        }
        if (options_.rank < 2) {
          look_for_hang();
        }
        answered_.store(monotonic_nanoseconds());
      } while (pause(interval));
      say_goodbye();
    } catch (const std::exception& error) {
      log_debug("the watch over the other ranks ends: ", error.what());
    }
    watching_.store(false);
  }

  void publish() {
    store_.set(beat_key(options_.rank), to_text(heartbeat_.beat(), heartbeat_.collective().read(),
                                                options_.host, number_++));
  }

  void look_for_hang() {
    std::vector<RankActivity> ranks;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (const Peer* peer = ask(rank)) {
        ranks.push_back(peer->activity);
      }
    }
    const auto hang = find_hang(ranks, monotonic_nanoseconds(), options_.hang_timeout);
    if (!hang) {
      return;
    }
    const Peer& peer = peers_[static_cast<std::size_t>(hang->rank)];
    const RankEnd blamed{.rank = hang->rank,
                         .pid = peer.pid,
                         .exit_code = kStatusFailed,
                         .reported = FailureCategory::kHang,
                         .message = hang->text,
                         .beat = peer.activity.beat};
    const std::string line = failure_line(make_failure(blamed), peer.host);
    log_error(line);
    write_hang_report(blamed, peer.host);
    store_.set(kFailedRank, std::to_string(hang->rank));
    announce_peer_failure(store_, line);
  }

  // Null for a rank that has not begun, or has ended its watch.
  const Peer* ask(int rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!has(store_, beat_key(rank))) {
      return nullptr;
    }
    const std::string text = store_.get(beat_key(rank));
    if (text.empty()) {
      return nullptr;
    }
    const nlohmann::json json = nlohmann::json::parse(text);
    const std::int64_t now = monotonic_nanoseconds();
    if (json.at("number").get<std::int64_t>() != peer.number) {
      peer = {.number = json.at("number").get<std::int64_t>(),
              .heard = now,
              .host = json.at("host").get<std::string>(),
              .pid = json.at("pid").get<int>(),
              .activity = {.rank = rank,
                           .beat = {.phase = json.at("phase").get<std::string>(),
                                    .update = json.at("update").get<std::uint64_t>(),
                                    .nanoseconds = now - json.at("age").get<std::int64_t>()},
                           .collective = {.begun = json.at("begun").get<std::uint64_t>(),
                                          .ended = json.at("ended").get<std::uint64_t>(),
                                          .kind = json.at("kind").get<std::string>(),
                                          .numel = json.at("numel").get<std::int64_t>(),
                                          .purpose = json.at("purpose").get<std::string>()}}};
    }
    const std::int64_t awake = awake_since_.load();
    peer.activity.beat.nanoseconds = std::max(peer.activity.beat.nanoseconds, awake);
    const std::int64_t silence = now - std::max(peer.heard, awake);
    const bool unheard = silence > options_.hang_timeout.count() * 1'000'000;
    peer.activity.state = unheard ? kUnheardState : '?';
    return &peer;
  }

  // Whoever still works gets the time to end by itself, as by a broken connection.
  void end_after_failure() {
    watching_.store(false);  // the other thread has nothing more to say
    const std::string line = store_.get(kFailure);
    const bool blamed =
        has(store_, kFailedRank) && store_.get(kFailedRank) == std::to_string(options_.rank);
    if (blamed) {
      write_all_stacks();
      log_error(line);
      report_failure(heartbeat_, FailureCategory::kHang, line);
      ::_exit(1);
    }
    if (pause(options_.peer_grace)) {
      const std::string text = concat("stopped, because ", line);
      log_error(text);
      report_failure(heartbeat_, FailureCategory::kLostPeer, text);
      ::_exit(1);
    }
  }

  // The host of the store stays until the others have no more need of it.
  void say_goodbye() {
    store_.set(beat_key(options_.rank), "");
    std::int64_t ended = store_.add(kEnded, 1);
    constexpr milliseconds kShort{20};
    const Clock::time_point end = Clock::now() + options_.peer_grace;
    while (options_.hosts_store && ended < options_.world_size && Clock::now() < end &&
           !has(store_, kFailure)) {
      std::this_thread::sleep_for(kShort);
      ended = store_.add(kEnded, 0);
    }
  }

  PeerWatchOptions options_;
  Heartbeat& heartbeat_;
  Store store_;
  std::vector<Peer> peers_;
  std::int64_t number_ = 0;
  std::atomic<std::int64_t> answered_{monotonic_nanoseconds()};
  std::atomic<std::int64_t> awake_since_{0};  // after this process was suspended
  std::atomic<bool> watching_{true};          // the other thread does
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
  std::thread deadman_;
};

PeerWatch::PeerWatch(const PeerWatchOptions& options, Heartbeat& heartbeat) {
  // Signals are for the main thread; each thread can show its stack.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigdelset(&all, SIGQUIT);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::make_unique<Thread>(options, heartbeat);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PeerWatch::~PeerWatch() = default;

}  // namespace temper
