#include "temper/dist/store.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "temper/core/error.h"
#include "temper/launch/start_barrier.h"

namespace temper {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr milliseconds kLong{20'000};
const std::vector<std::string> kMissing = {"missing"};

TEST(Store, TwoConnectionsShareValues) {
  Store host = Store::host({});
  Store peer = Store::connect("127.0.0.1", host.port(), kLong);
  host.set("key", std::string_view("a\0b", 3));
  EXPECT_EQ(peer.get("key"), std::string("a\0b", 3));
  EXPECT_EQ(host.add("sum", 2), 2);
  EXPECT_EQ(peer.add("sum", 3), 5);
  const std::vector<std::string> both = {"key", "sum"};
  EXPECT_TRUE(peer.check(both));
  EXPECT_TRUE(peer.wait(both, milliseconds(1000)));
  EXPECT_FALSE(peer.check(kMissing));
}

TEST(Store, IsUsableAfterAWaitThatRanOut) {
  Store host = Store::host({});
  EXPECT_FALSE(host.wait(kMissing, milliseconds(50)));
  host.set("missing", "now");
  EXPECT_TRUE(host.wait(kMissing, milliseconds(1000)));
  EXPECT_EQ(host.get("missing"), "now");
}

TEST(Store, TakesAListeningSocket) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  Store host = Store::host({.listening_descriptor = listener});
  EXPECT_EQ(host.port(), ::ntohs(address.sin_port));
  Store peer = Store::connect("127.0.0.1", host.port(), kLong);
  peer.set("a", "b");
  EXPECT_EQ(host.get("a"), "b");
}

TEST(Store, ErrorsNameHostAndPort) {
  const Store host = Store::host({});
  try {
    static_cast<void>(Store::host({.port = host.port()}));
    ADD_FAILURE() << "a second host on the port";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:" + std::to_string(host.port())));
    EXPECT_THAT(error.what(), HasSubstr("MASTER_PORT"));
  }
  try {
    static_cast<void>(Store::connect("127.0.0.1", 1, milliseconds(300)));
    ADD_FAILURE() << "nobody listens on port 1";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1:1 within 300ms"));
    EXPECT_THAT(error.what(), HasSubstr("tried 127.0.0.1 (Connection refused)"));
    EXPECT_THAT(error.what(), HasSubstr("MASTER_ADDR"));
  }
  try {
    static_cast<void>(Store::connect("no-such-host.invalid", 1, milliseconds(300)));
    ADD_FAILURE() << "an invalid name resolves";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tried the name 'no-such-host.invalid' ("));
  }
}

TEST(Store, TriesBothFamilies) {
  Store host = Store::host({.address = "localhost"});
  Store peer = Store::connect("localhost", host.port(), kLong);
  peer.set("a", "b");
  EXPECT_EQ(host.get("a"), "b");
}

TEST(Store, LostHostIsAnErrorAndNoTimeOut) {
  auto host = std::make_unique<Store>(Store::host({}));
  Store peer = Store::connect("127.0.0.1", host->port(), kLong);
  host.reset();
  EXPECT_THROW(static_cast<void>(peer.wait(kMissing, milliseconds(2000))), std::runtime_error);
}

TEST(Store, AttemptsDoNotSeeEachOthersKeys) {
  Store host = Store::host({});
  Store first = Store::connect("127.0.0.1", host.port(), kLong);
  first.enter("attempt 0");
  first.set("failure", "rank 1 failed");
  first.add("count", 3);
  Store second = Store::connect("127.0.0.1", host.port(), kLong);
  second.enter("attempt 1");
  const std::vector<std::string> keys = {"failure"};
  EXPECT_TRUE(first.check(keys));
  EXPECT_FALSE(second.check(keys));
  EXPECT_EQ(second.add("count", 1), 1);
  EXPECT_FALSE(host.check(keys));
}

TEST(StartBarrier, LetsAllRanksPass) {
  Store host = Store::host({});
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      Store store = Store::connect("127.0.0.1", host.port(), kLong);
      claim_rank(store, rank, 3);
      const auto hosts = start_barrier(store, rank, 3, {.timeout = kLong});
      ASSERT_TRUE(hosts);
      EXPECT_EQ(hosts->size(), 3U);
      EXPECT_EQ(hosts->at(2).host, host_name());
      EXPECT_EQ(hosts->at(2).address, "127.0.0.1");
    });
  }
}

TEST(StartBarrier, NamesTheMissing) {
  Store host = Store::host({});
  claim_rank(host, 0, 3);
  try {
    static_cast<void>(
        start_barrier(host, 0, 3, {.timeout = milliseconds(60), .warn_after = milliseconds(20)}));
    ADD_FAILURE() << "nobody else came";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("ranks 1, 2 of 3 did not start"));
  }
}

template <typename Function>
std::string config_error(const Function& function) {
  try {
    function();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

TEST(ClaimRank, ASecondProcessIsTurnedAwayAndTheFirstGoesOn) {
  Store host = Store::host({});
  Store stray = Store::connect("127.0.0.1", host.port(), kLong);
  claim_rank(host, 0, 1);
  EXPECT_THAT(config_error([&] { claim_rank(stray, 0, 1); }),
              testing::AllOf(HasSubstr("rank 0 of 1 (pid "), HasSubstr("is rank 0 of the run at"),
                             HasSubstr("MASTER_PORT")));
  EXPECT_TRUE(start_barrier(host, 0, 1, {.timeout = kLong}));
}

TEST(ClaimRank, AnotherWorldSizeIsTurnedAwayAndTheOthersLearnWhy) {
  Store host = Store::host({});
  Store peer = Store::connect("127.0.0.1", host.port(), kLong);
  claim_rank(host, 0, 2);
  const std::string reason = config_error([&] { claim_rank(peer, 1, 3); });
  EXPECT_THAT(reason, testing::AllOf(HasSubstr("rank 1 of 3 (pid "), HasSubstr("rank 0 of 2 (pid "),
                                     HasSubstr("WORLD_SIZE")));
  EXPECT_EQ(config_error([&] { static_cast<void>(start_barrier(host, 0, 2, {.timeout = kLong})); }),
            reason);
}

TEST(ClaimRank, WhoWasTurnedAwayLeavesTheNumberFree) {
  Store host = Store::host({});
  Store stray = Store::connect("127.0.0.1", host.port(), kLong);
  Store peer = Store::connect("127.0.0.1", host.port(), kLong);
  claim_rank(host, 0, 2);
  EXPECT_THAT(config_error([&] { claim_rank(stray, 1, 3); }), HasSubstr("WORLD_SIZE"));
  claim_rank(peer, 1, 2);
  peer.set("start/met/1", "");
  EXPECT_TRUE(start_barrier(host, 0, 2, {.timeout = kLong}));
}

}  // namespace
}  // namespace temper
