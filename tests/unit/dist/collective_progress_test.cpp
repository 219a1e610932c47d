#include "temper/dist/collective_progress.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <thread>

namespace temper {
namespace {

TEST(CollectiveProgress, NamesTheCollectiveEnteredLast) {
  CollectiveProgress progress;
  EXPECT_EQ(to_string(progress.read()), "");
  EXPECT_FALSE(progress.read().is_inside());
  progress.begin("broadcast", "int64", 1, "");
  progress.begin("all_reduce_sum", "float64", 42, "update summary");
  EXPECT_EQ(to_string(progress.read()), "#1 all_reduce_sum float64 x 42 (update summary)");
  EXPECT_TRUE(progress.read().is_inside());
  progress.end_all();
  EXPECT_FALSE(progress.read().is_inside());
  EXPECT_EQ(progress.read().ended, 2U);
  progress.begin("broadcast", "int64", 1, "");
  EXPECT_EQ(to_string(progress.read()), "#2 broadcast int64 x 1")
      << "nothing of an older one stays";
}

TEST(CollectiveProgress, CutsLongTexts) {
  CollectiveProgress progress;
  progress.begin(std::string(100, 'a'), "float64", 1, std::string(100, 'p'));
  EXPECT_EQ(progress.read().kind, std::string(CollectiveProgress::kKindLength, 'a'));
  EXPECT_EQ(progress.read().purpose, std::string(CollectiveProgress::kPurposeLength, 'p'));
}

TEST(CollectiveProgress, WorksInFreshSharedMemory) {
  void* memory = ::mmap(nullptr, sizeof(CollectiveProgress), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* progress = static_cast<CollectiveProgress*>(memory);
  EXPECT_EQ(progress->read().begun, 0U);
  progress->begin("all_reduce_max", "int64", 7, "");
  EXPECT_EQ(to_string(progress->read()), "#0 all_reduce_max int64 x 7");
  ::munmap(memory, sizeof(CollectiveProgress));
}

TEST(CollectiveProgress, AReaderNeverMixesTwo) {
  CollectiveProgress progress;
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 200000; ++i) {
      i % 2 == 0 ? progress.begin("all_reduce_sum", "float64", 1, "gradient bucket")
                 : progress.begin("broadcast", "uint8", 2, "checkpoint outcome");
    }
    done = true;
  });
  do {
    const CollectiveState state = progress.read();
    if (state.begun > 0 && state.whole) {
      const bool sum = state.begun % 2 == 1;
      ASSERT_EQ(state.kind, sum ? "all_reduce_sum float64" : "broadcast uint8");
      ASSERT_EQ(state.numel, sum ? 1 : 2);
      ASSERT_EQ(state.purpose, sum ? "gradient bucket" : "checkpoint outcome");
    }
  } while (!done);
  writer.join();
}

}  // namespace
}  // namespace temper
