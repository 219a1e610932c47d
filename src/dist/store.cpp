#include "temper/dist/store.h"

#include <algorithm>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "dist/reach_host.h"
#include "dist/store_handle.h"
#include "temper/core/error.h"

namespace temper {
namespace {

using std::chrono::milliseconds;

std::vector<std::string> to_vector(std::span<const std::string> keys) {
  return {keys.begin(), keys.end()};
}

// c10d adds a stack trace to its messages; the first line says what happened.
std::string first_line(const std::exception& error) {
  const std::string_view text = error.what();
  return std::string(text.substr(0, text.find('\n')));
}

template <typename Function>
auto with_place(const Store& store, const char* what, const Function& function) {
  try {
    return function();
  } catch (const std::exception& error) {
    throw LostPeerError(concat("store at ", store.address(), ":", store.port(), ": ", what, ": ",
                               first_line(error),
                               "; the process that hosts it may have ended: look for the "
                               "first error of the run"));
  }
}

}  // namespace

Store::Store(std::unique_ptr<Handle> handle, std::string address, std::uint16_t port)
    : handle_(std::move(handle)), address_(std::move(address)), port_(port) {}
Store::Store(Store&& other) noexcept = default;
Store& Store::operator=(Store&& other) noexcept = default;
Store::~Store() = default;

Store Store::host(const StoreHostOptions& options) {
  c10d::TCPStoreOptions c10d_options;
  c10d_options.port = options.port;
  c10d_options.isServer = true;
  c10d_options.numWorkers = static_cast<std::size_t>(options.world_size);
  c10d_options.waitWorkers = false;
  c10d_options.timeout = options.timeout;
  c10d_options.masterListenFd = options.listening_descriptor;
  try {
    auto handle = std::make_unique<Handle>();
    auto store = c10::make_intrusive<c10d::TCPStore>(options.address, c10d_options);
    const std::uint16_t port = store->getPort();
    handle->store = std::move(store);
    return Store(std::move(handle), options.address, port);
  } catch (const std::exception& error) {
    throw std::runtime_error(concat("cannot host the store at ", options.address, ":", options.port,
                                    ": ", first_line(error),
                                    "; is another run using the port? Choose another one with "
                                    "MASTER_PORT"));
  }
}

Store Store::connect(const std::string& host, std::uint16_t port, milliseconds timeout,
                     milliseconds connect_timeout) {
  // c10d would retry in silence and name no address.
  const std::string address = wait_for_listener(host, port, std::min(timeout, connect_timeout));
  c10d::TCPStoreOptions c10d_options;
  c10d_options.port = port;
  c10d_options.waitWorkers = false;
  c10d_options.timeout = timeout;
  try {
    auto handle = std::make_unique<Handle>();
    handle->store = c10::make_intrusive<c10d::TCPStore>(address, c10d_options);
    return Store(std::move(handle), host, port);
  } catch (const std::exception& error) {
    throw std::runtime_error(concat("the store at ", host, ":", port, " (", address,
                                    ") does not answer as a store: ", first_line(error),
                                    "; does another program use the port? Check MASTER_PORT"));
  }
}

void Store::enter(const std::string& name) {
  handle_->store = c10::make_intrusive<c10d::PrefixStore>(name, handle_->store);
}

void Store::set(const std::string& key, std::string_view value) {
  with_place(*this, "set", [&] {
    handle_->store->set(key, std::vector<std::uint8_t>(value.begin(), value.end()));
  });
}

std::string Store::get(const std::string& key) {
  return with_place(*this, "get", [&] {
    const std::vector<std::uint8_t> value = handle_->store->get(key);
    return std::string(value.begin(), value.end());
  });
}

bool Store::wait(std::span<const std::string> keys, milliseconds timeout) {
  // c10d's own wait holds the connection for its whole time, and prints a stack trace and two
  // warnings when the time is up.
  constexpr milliseconds kLongestPause{50};
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + timeout;
  for (milliseconds pause{1};; pause = std::min(2 * pause, kLongestPause)) {
    if (check(keys)) {
      return true;
    }
    const Clock::duration rest = end - Clock::now();
    if (rest <= Clock::duration::zero()) {
      return false;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(rest, pause));
  }
}

bool Store::check(std::span<const std::string> keys) {
  return with_place(*this, "check", [&] { return handle_->store->check(to_vector(keys)); });
}

std::int64_t Store::add(const std::string& key, std::int64_t amount) {
  return with_place(*this, "add", [&] { return handle_->store->add(key, amount); });
}

}  // namespace temper
