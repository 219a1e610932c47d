#include <gtest/gtest.h>

#include <string_view>

#include "launch/spawn_subject.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--subject") {
    return temper::run_subject(argc, argv);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
