#include "temper/launch/host_address.h"

#include <gmock/gmock.h>

#include "temper/core/error.h"

namespace temper {
namespace {

using testing::HasSubstr;

TEST(HostAddress, KnowsLoopbackInBothFamilies) {
  for (const char* address : {"127.0.0.1", "127.0.1.1", "127.255.0.9", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address : {"10.0.0.1", "128.0.0.1", "fe80::1", "::ffff:10.0.0.1", "localhost"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST(HostAddress, ResolvesNumbersOfBothFamilies) {
  EXPECT_THAT(resolve_host("127.0.0.1"), testing::ElementsAre("127.0.0.1"));
  EXPECT_THAT(resolve_host("::1"), testing::ElementsAre("::1"));
  try {
    static_cast<void>(resolve_host("no-such-host.invalid"));
    ADD_FAILURE() << "an invalid name resolves";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'no-such-host.invalid' does not resolve"));
  }
}

TEST(HostAddress, RouteToLoopbackIsLoopback) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("no-such-host.invalid"), "");
}

std::string address_or_error(const std::vector<RankHost>& hosts, int rank) {
  try {
    return address_for_peers(hosts, rank);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(AddressForPeers, OneMachineIsLoopbackWhateverItsName) {
  const std::vector<RankHost> hosts = {{"n1", "m", "127.0.1.1"}, {"n1", "m", "10.0.0.1"}};
  EXPECT_EQ(address_or_error(hosts, 0), "127.0.0.1");
  EXPECT_EQ(address_or_error(hosts, 1), "127.0.0.1");
}

TEST(AddressForPeers, SeveralMachinesUseTheInterfaceTowardsRankZero) {
  const std::vector<RankHost> hosts = {{"n1", "a", "10.0.0.1"}, {"n2", "b", "10.0.0.2"}};
  EXPECT_EQ(address_or_error(hosts, 0), "10.0.0.1");
  EXPECT_EQ(address_or_error(hosts, 1), "10.0.0.2");
}

TEST(AddressForPeers, LoopbackAloneIsRefusedOnSeveralMachines) {
  const std::vector<RankHost> hosts = {{"n1", "a", "127.0.1.1"}, {"n2", "b", ""}};
  EXPECT_THAT(address_or_error(hosts, 0), HasSubstr("set MASTER_ADDR"));
  EXPECT_THAT(address_or_error(hosts, 0), HasSubstr("n2 (no address)"));
  EXPECT_THAT(address_or_error(hosts, 1), HasSubstr("n1 (127.0.1.1)"));
}

RankEnvironment rank_of_two_nodes(int rank, const std::string& master) {
  return {.rank = rank,
          .world_size = 2,
          .nodes = 2,
          .master_address = master,
          .launcher = LauncherKind::kSlurm};
}

std::string refusal(const RankEnvironment& environment) {
  try {
    check_master_address(environment);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MasterAddress, LoopbackFromAHostListIsRefusedOnOtherNodes) {
  RankEnvironment environment = rank_of_two_nodes(1, "127.0.1.1");
  environment.master_is_derived = true;
  EXPECT_THAT(refusal(environment), HasSubstr("127.0.1.1 (127.0.1.1), is a loopback address here"));
  environment.rank = 0;  // the host itself may know its name so
  EXPECT_EQ(refusal(environment), "no error");
}

TEST(MasterAddress, LoopbackThatTheUserSetIsAllowed) {
  EXPECT_EQ(refusal(rank_of_two_nodes(0, "127.0.0.1")), "no error");
  EXPECT_EQ(refusal(rank_of_two_nodes(1, "127.0.0.1")), "no error");
}

TEST(MasterAddress, RankZeroNeedsAnAddressOfItsOwn) {
  // An address for documentation (RFC 5737): no host has it.
  EXPECT_THAT(refusal(rank_of_two_nodes(0, "192.0.2.7")), HasSubstr("not an address of this host"));
  EXPECT_EQ(refusal(rank_of_two_nodes(1, "192.0.2.7")), "no error");
  EXPECT_THAT(refusal(rank_of_two_nodes(0, "no-such-host.invalid")), HasSubstr("does not resolve"));
  RankEnvironment hosted = rank_of_two_nodes(0, "192.0.2.7");
  hosted.store_is_hosted = true;
  EXPECT_EQ(refusal(hosted), "no error");
}

TEST(OwnRankHost, NamesHostMachineAndRoute) {
  const RankHost place = own_rank_host("127.0.0.1");
  EXPECT_EQ(place.host, host_name());
  EXPECT_EQ(place.address, "127.0.0.1");
  EXPECT_EQ(place.machine, own_rank_host("no-such-host.invalid").machine);
}

}  // namespace
}  // namespace temper
