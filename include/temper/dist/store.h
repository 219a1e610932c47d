#pragma once
// The key-value store through which the ranks of a run meet: one process hosts it, all connect by
// TCP. It answers as long as its host lives, so the launcher hosts it and a dying rank takes no
// news with it. Every failure is a std::runtime_error that names host and port and what to do; once
// connected it is a LostPeerError.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace temper {

// Another rank is gone or late: a consequence, rarely the cause of a failure.
class LostPeerError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StoreHostOptions {
  std::string address = "127.0.0.1";  // where the host itself and its neighbours connect
  std::uint16_t port = 0;             // 0: any free port
  int world_size = 1;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // of `get`, and of connecting
  // A socket that listens already; the store takes it over and closes it, `port` is ignored.
  // Without one the store listens on all interfaces.
  std::optional<int> listening_descriptor{};
};

// Threads may share one object; `wait` does not hold the others up, `get` of a missing key does.
class Store {
 public:
  // Returns at once, also when no rank has connected yet.
  [[nodiscard]] static Store host(const StoreHostOptions& options);
  // Retries all addresses of the host, v4 and v6, until one answers or `connect_timeout` is up; the
  // error then lists what was tried. `timeout` is that of `get`.
  [[nodiscard]] static Store connect(
      const std::string& host, std::uint16_t port, std::chrono::milliseconds timeout,
      std::chrono::milliseconds connect_timeout = std::chrono::seconds(60));

  // From now on all keys of this object stand behind `name`: a store that outlives an attempt to
  // run, as that of torchrun's agent, must not show the next one what the last has left.
  void enter(const std::string& name);

  Store(Store&& other) noexcept;
  Store& operator=(Store&& other) noexcept;
  ~Store();

  void set(const std::string& key, std::string_view value);
  // Waits for the key, at most the store's time-out.
  [[nodiscard]] std::string get(const std::string& key);
  // False when the time is up before all keys exist.
  [[nodiscard]] bool wait(std::span<const std::string> keys, std::chrono::milliseconds timeout);
  // Whether all keys exist.
  [[nodiscard]] bool check(std::span<const std::string> keys);
  // Adds to a number that starts at 0 and returns the sum; one step for all processes.
  std::int64_t add(const std::string& key, std::int64_t amount);

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

  // The store of c10d behind it; src/dist/store_handle.h.
  struct Handle;
  [[nodiscard]] const Handle& handle() const { return *handle_; }

 private:
  Store(std::unique_ptr<Handle> handle, std::string address, std::uint16_t port);

  std::unique_ptr<Handle> handle_;
  std::string address_;
  std::uint16_t port_;
};

}  // namespace temper
