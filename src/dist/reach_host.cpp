#include "dist/reach_host.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "temper/core/error.h"
#include "temper/core/log.h"
#include "temper/core/units.h"

namespace temper {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// An address that swallows packets must not keep the others waiting.
constexpr milliseconds kOneAttempt{3000};
constexpr milliseconds kWarnAfter{10'000};
constexpr milliseconds kLongestPause{500};

class Socket {
 public:
  explicit Socket(int family)
      : descriptor_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// 0 or an errno value.
int try_connect(const addrinfo& address, Clock::time_point end) {
  const Socket socket(address.ai_family);
  if (socket.get() < 0) {
    return errno;
  }
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) {
    return 0;
  }
  if (errno != EINPROGRESS) {
    return errno;
  }
  const Clock::time_point limit = std::min(end, Clock::now() + kOneAttempt);
  pollfd entry{socket.get(), POLLOUT, 0};
  while (true) {
    const auto rest = std::chrono::ceil<milliseconds>(limit - Clock::now());
    const int ready = ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(rest.count(), 0)));
    if (ready > 0) {
      break;
    }
    if (ready == 0 || errno != EINTR) {
      return ready == 0 ? ETIMEDOUT : errno;
    }
  }
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

std::string numeric(const addrinfo& address) {
  std::array<char, NI_MAXHOST> text{};
  ::getnameinfo(address.ai_addr, address.ai_addrlen, text.data(), text.size(), nullptr, 0,
                NI_NUMERICHOST);
  return text.data();
}

class Search {
 public:
  Search(const std::string& host, std::uint16_t port) : host_(host), port_(port) {}

  // The address that answered; empty for none.
  std::string run(Clock::time_point end) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int status = ::getaddrinfo(host_.c_str(), std::to_string(port_).c_str(), &hints, &list);
    if (status != 0) {
      tried_[concat("the name '", host_, "'")] = ::gai_strerror(status);
      return {};
    }
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
    for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
      const int error = try_connect(*entry, end);
      if (error == 0) {
        return numeric(*entry);
      }
      tried_[numeric(*entry)] = std::generic_category().message(error);
    }
    return {};
  }

  [[nodiscard]] std::string tried() const {
    std::vector<std::string> texts;
    texts.reserve(tried_.size());
    for (const auto& [address, reason] : tried_) {
      texts.push_back(concat(address, " (", reason, ")"));
    }
    return join(texts, ", ");
  }

 private:
  std::string host_;
  std::uint16_t port_;
  std::map<std::string, std::string> tried_;
};

}  // namespace

std::string wait_for_listener(const std::string& host, std::uint16_t port, milliseconds timeout) {
  const Clock::time_point start = Clock::now();
  const Clock::time_point end = start + timeout;
  Search search(host, port);
  bool warned = false;
  for (milliseconds pause{5};; pause = std::min(2 * pause, kLongestPause)) {
    if (std::string address = search.run(end); !address.empty()) {
      return address;
    }
    const Clock::duration rest = end - Clock::now();
    if (rest <= Clock::duration::zero()) {
      throw std::runtime_error(concat(
          "cannot reach the store at ", host, ":", port, " within ", to_text(timeout), "; tried ",
          search.tried(),
          "; check MASTER_ADDR and MASTER_PORT, the name's resolution, firewalls between the "
          "hosts, and that rank 0 or the agent runs"));
    }
    if (!warned && Clock::now() - start > kWarnAfter) {
      warned = true;
      log_warning("still trying to reach the store at ", host, ":", port, "; tried ",
                  search.tried());
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(rest, pause));
  }
}

}  // namespace temper
