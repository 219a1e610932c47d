#include "launch/host_list.h"

#include <gmock/gmock.h>

#include "temper/core/error.h"

namespace temper {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse_host_list(text));
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(HostList, IsExpandedInSlurmsOrder) {
  EXPECT_THAT(parse_host_list("rack[0-1]n[02-03]"),
              ElementsAre("rack0n02", "rack0n03", "rack1n02", "rack1n03"));
  EXPECT_THAT(parse_host_list("p[08-11]"), ElementsAre("p08", "p09", "p10", "p11"));
  EXPECT_THAT(parse_host_list("a,b,c[1,3]"), ElementsAre("a", "b", "c1", "c3"));
  EXPECT_THAT(parse_host_list("gpu[001-003,010]-r[1-2]"), SizeIs(8));
  EXPECT_EQ(parse_host_list("gpu[001-003,010]-r[1-2]").back(), "gpu010-r2");
  EXPECT_THAT(parse_host_list("n1"), ElementsAre("n1"));
  EXPECT_THAT(parse_host_list("n[9-10]"), ElementsAre("n9", "n10"));
  EXPECT_THAT(parse_host_list("n[099-100]"), ElementsAre("n099", "n100"));
}

TEST(HostList, TextAfterTheLastBracketIsKept) {
  EXPECT_THAT(parse_host_list("b[1-2]-ib0,c"), ElementsAre("b1-ib0", "b2-ib0", "c"));
}

TEST(HostList, RefusesWhatItCannotRead) {
  for (const char* text : {"", ",", "a,", "a[1-", "a]1", "a[[1]]", "a[1],,b", "a[]", "a[1-]",
                           "a[-2]", "a[3-1]", "a[x]", "a[1-2-3]", "a[99999999999]"}) {
    EXPECT_THAT(refusal(text), HasSubstr(concat("'", text, "'"))) << text;
  }
}

TEST(HostList, SizeHasALimit) {
  EXPECT_THAT(parse_host_list("n[0-65535]"), SizeIs(65536));
  EXPECT_THAT(refusal("n[0-65536]"), HasSubstr("more than 65536"));
  EXPECT_THAT(refusal("n[0-999][0-999]"), HasSubstr("more than 65536"));
  EXPECT_THAT(refusal("a[0-40000],b[0-40000]"), HasSubstr("more than 65536"));
}

TEST(TaskCounts, RepeatAndStandAlone) {
  EXPECT_THAT(parse_task_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(parse_task_counts("4"), ElementsAre(4));
  EXPECT_THAT(parse_task_counts("2,1"), ElementsAre(2, 1));
  for (const char* text :
       {"", "2(x", "2(3)", "2(x0)", "(x2)", "2(x2)1", "a", "2,,1", "1(x65537)"}) {
    EXPECT_THROW(static_cast<void>(parse_task_counts(text)), ConfigError) << text;
  }
}

}  // namespace
}  // namespace temper
