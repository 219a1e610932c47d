#include "temper/launch/host_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <system_error>

#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/core/log.h"

namespace temper {
namespace {

struct Resolved {
  sockaddr_storage address{};
  socklen_t size = 0;
};

std::vector<Resolved> resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int status = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (status != 0) {
    throw std::runtime_error(concat("'", host, "' does not resolve: ", ::gai_strerror(status)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  std::vector<Resolved> result;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family == AF_INET || entry->ai_family == AF_INET6) {
      Resolved& item = result.emplace_back();
      std::memcpy(&item.address, entry->ai_addr, entry->ai_addrlen);
      item.size = entry->ai_addrlen;
    }
  }
  return result;
}

std::string numeric(const Resolved& item) {
  std::array<char, NI_MAXHOST> text{};
  const int status = ::getnameinfo(reinterpret_cast<const sockaddr*>(&item.address), item.size,
                                   text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return status == 0 ? text.data() : std::string();
}

class UdpSocket {
 public:
  explicit UdpSocket(int family)
      : descriptor_(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP)) {}
  ~UdpSocket() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

void set_port(Resolved& item, std::uint16_t port) {
  if (item.address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(item.address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(item.address).sin6_port = htons(port);
  }
}

std::string route_to(Resolved target) {
  constexpr std::uint16_t kAnyPort = 9;
  set_port(target, kAnyPort);
  const UdpSocket socket(target.address.ss_family);
  Resolved own;
  own.size = sizeof own.address;
  if (socket.get() < 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.address), target.size) !=
          0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own.address), &own.size) != 0) {
    return {};
  }
  return numeric(own);
}

bool belongs_to_this_host(Resolved item) {
  set_port(item, 0);
  const UdpSocket socket(item.address.ss_family);
  return socket.get() >= 0 &&
         ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&item.address), item.size) == 0;
}

std::string content_of(const char* path) {
  try {
    return std::string(trim(read_file(path)));
  } catch (const SystemError&) {  // not every container has it
    return "unknown";
  }
}

// In ticks since the machine's start: tells two processes of the same number apart.
std::string start_time(int pid) {
  const std::string status = content_of(concat("/proc/", pid, "/stat").c_str());
  const std::size_t end_of_name = status.rfind(')');
  constexpr std::size_t kField = 20;  // after the name
  const auto fields = split(status.substr(std::min(status.size(), end_of_name)), ' ');
  return fields.size() > kField ? fields[kField] : "unknown";
}

std::vector<std::string> without_repeats(const std::vector<Resolved>& items) {
  std::vector<std::string> result;
  for (const Resolved& item : items) {
    if (std::string text = numeric(item); std::ranges::find(result, text) == result.end()) {
      result.push_back(std::move(text));
    }
  }
  return result;
}

bool all_loopback(const std::vector<std::string>& addresses) {
  return std::ranges::all_of(addresses, is_loopback);
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) {
    throw_errno("cannot read the host's name");
  }
  return name.data();
}

std::vector<std::string> resolve_host(const std::string& host) {
  return without_repeats(resolve(host));
}

bool is_loopback(const std::string& address) {
  in_addr v4{};
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  if (::inet_pton(AF_INET6, address.c_str(), &v6) != 1) {
    return false;
  }
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string address_towards(const std::string& host) {
  std::vector<Resolved> items;
  try {
    items = resolve(host);
  } catch (const std::runtime_error&) {  // no address leads to it
    return {};
  }
  for (const Resolved& item : items) {
    if (std::string address = route_to(item); !address.empty()) {
      return address;
    }
  }
  return {};
}

RankHost own_rank_host(const std::string& master_address) {
  std::error_code ignored;  // without /proc the host's name has to do
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", ignored).string();
  RankHost place{.host = host_name(), .machine = {}, .address = address_towards(master_address)};
  place.parent = concat(place.host, "/", ::getppid(), "/", start_time(::getppid()));
  place.machine =
      concat(place.host, " ", content_of("/proc/sys/kernel/random/boot_id"), " ", network);
  return place;
}

std::string address_for_peers(std::span<const RankHost> hosts, int rank) {
  const RankHost& own = hosts[static_cast<std::size_t>(rank)];
  const auto elsewhere = [&](const RankHost& place) { return place.machine != own.machine; };
  if (std::ranges::none_of(hosts, elsewhere)) {
    return "127.0.0.1";
  }
  if (!own.address.empty() && !is_loopback(own.address)) {
    return own.address;
  }
  std::vector<std::string> tried;
  for (const RankHost& place : hosts) {
    if (!elsewhere(place)) {
      continue;
    }
    if (!place.address.empty() && !is_loopback(place.address)) {
      if (std::string address = address_towards(place.address);
          !address.empty() && !is_loopback(address)) {
        return address;
      }
    }
    tried.push_back(
        concat(place.host, " (", place.address.empty() ? "no address" : place.address, ")"));
  }
  throw std::runtime_error(
      concat("the ranks are on several hosts, but rank ", rank, " on ", own.host,
             " finds no address that they could reach: it only has ",
             own.address.empty() ? "none" : own.address, ", and the others are ", join(tried, ", "),
             "; set MASTER_ADDR to an address of rank 0's host that all hosts can reach"));
}

void check_master_address(const RankEnvironment& environment) {
  if (environment.world_size == 1 || environment.launcher == LauncherKind::kSpawn) {
    return;
  }
  const std::string& name = environment.master_address;
  const bool hosts_store = environment.rank == 0 && !environment.store_is_hosted;
  std::vector<Resolved> items;
  try {
    items = resolve(name);
  } catch (const std::runtime_error& error) {
    if (hosts_store) {
      throw ConfigError(concat("MASTER_ADDR: ", error.what(), "; this host (", host_name(),
                               ") runs rank 0 and has to host the store: set MASTER_ADDR to an "
                               "address of it"));
    }
    return;  // connecting tries again for a while, and says so
  }
  const std::vector<std::string> addresses = without_repeats(items);
  const std::string shown = concat(name, " (", join(addresses, ", "), ")");
  if (environment.nodes > 1 && all_loopback(addresses)) {
    if (environment.master_is_derived && !hosts_store) {
      throw ConfigError(concat("the first host of SLURM_STEP_NODELIST, ", shown,
                               ", is a loopback address here, which no other host can reach: set "
                               "MASTER_ADDR to a reachable address of that host"));
    }
    if (!environment.master_is_derived && environment.rank == 0) {
      log_warning("MASTER_ADDR=", shown, " is a loopback address in a run of ", environment.nodes,
                  " nodes: it works only if all of them are on this machine");
    }
  }
  if (hosts_store && std::ranges::none_of(items, belongs_to_this_host)) {
    throw ConfigError(concat("MASTER_ADDR=", shown, " is not an address of this host (",
                             host_name(),
                             "), where rank 0 runs and has to host the store: set it to "
                             "an address of rank 0's host"));
  }
}

}  // namespace temper
