#include "data/memory_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace temper {
namespace {

void wait_until(const std::atomic<int>& value, int wanted) {
  while (value != wanted) {
    std::this_thread::yield();
  }
}

TEST(MemoryBudget, WhatIsTakenIsMissingUntilItComesBack) {
  MemoryBudget budget(100);
  budget.set_fixed(30);
  EXPECT_TRUE(budget.try_take(50));
  EXPECT_FALSE(budget.try_take(30));
  EXPECT_FALSE(budget.try_take(10, 20));
  EXPECT_TRUE(budget.try_take(10, 10));
  budget.give_back(60);
  EXPECT_TRUE(budget.try_take(70));
  EXPECT_EQ(budget.peak(), 100U);
}

TEST(MemoryBudget, MoreThanThereEverIsIsRefusedAtOnce) {
  MemoryBudget budget(100);
  budget.set_fixed(30);
  EXPECT_FALSE(budget.take(71));
  EXPECT_TRUE(budget.take(70));
}

TEST(MemoryBudget, WaitingThreadsAreServedInTheirOrder) {
  MemoryBudget budget(100);
  ASSERT_TRUE(budget.take(60));
  std::atomic<int> asked{0};
  std::atomic<int> served{0};
  std::thread large([&] {
    ++asked;
    EXPECT_TRUE(budget.take(90));
    ++served;
  });
  wait_until(asked, 1);
  // A small request does not overtake the large one: it is refused from the moment that one waits.
  while (budget.try_take(1)) {
    budget.give_back(1);
    std::this_thread::yield();
  }
  EXPECT_EQ(served, 0);
  budget.give_back(60);
  large.join();
  EXPECT_EQ(served, 1);
  EXPECT_FALSE(budget.try_take(11));
  EXPECT_TRUE(budget.try_take(10));
}

TEST(MemoryBudget, ReclaimsWhatCanBeHadBackBeforeItWaits) {
  MemoryBudget budget(100);
  std::uint64_t wanted = 0;
  budget.set_reclaim([&](std::uint64_t bytes) {
    wanted = bytes;
    budget.give_back(80);
  });
  ASSERT_TRUE(budget.try_take(80));
  EXPECT_TRUE(budget.take(50));
  EXPECT_EQ(wanted, 50U);
}

TEST(MemoryBudget, ClosingWakesTheWaiting) {
  MemoryBudget budget(100);
  ASSERT_TRUE(budget.take(100));
  std::thread waiting([&] { EXPECT_FALSE(budget.take(50)); });
  budget.close();
  waiting.join();
  EXPECT_FALSE(budget.try_take(0));
}

TEST(MemoryLease, GivesBackWhatItHolds) {
  MemoryBudget budget(100);
  {
    MemoryLease lease(budget);
    EXPECT_TRUE(lease.try_grow(40));
    EXPECT_TRUE(lease.try_grow(30));  // holds more
    EXPECT_EQ(lease.bytes(), 40U);
    EXPECT_TRUE(lease.replace(90));
    lease.shrink(70);
    EXPECT_TRUE(budget.try_take(30));
    budget.give_back(30);
  }
  EXPECT_TRUE(budget.try_take(100));
}

}  // namespace
}  // namespace temper
