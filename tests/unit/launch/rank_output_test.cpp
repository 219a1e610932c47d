#include "launch/rank_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

namespace temper {
namespace {

using testing::ElementsAre;

struct Collected {
  std::vector<std::string> lines;
  LineSplitter splitter{[this](std::string_view text, LineEnd end) {
    lines.push_back(std::string(text) + (end == LineEnd::kNewline ? "\\n" : "\\r"));
  }};
};

TEST(LineSplitter, PiecesMakeLines) {
  Collected c;
  for (const char* piece : {"on", "e\ntw", "o\n\nth", "ree"}) {
    c.splitter.feed(piece);
  }
  EXPECT_THAT(c.lines, ElementsAre("one\\n", "two\\n", "\\n"));
  c.splitter.finish();
  EXPECT_EQ(c.lines.back(), "three\\n");
}

TEST(LineSplitter, CarriageReturnEndsARedraw) {
  Collected c;
  c.splitter.feed("10%\r20%\r\rdone\n");
  EXPECT_THAT(c.lines, ElementsAre("10%\\r", "20%\\r", "done\\n"));
}

TEST(LineSplitter, RedrawIsHandedOnAtOnce) {
  Collected c;
  c.splitter.feed("10%\r");
  EXPECT_THAT(c.lines, ElementsAre("10%\\r"));
}

TEST(LineSplitter, ReturnAndNewlineAreOneEndAlsoWhenCut) {
  Collected c;
  c.splitter.feed("a\r\nb\r");
  c.splitter.feed("\nc\r");
  c.splitter.feed("d\n");
  EXPECT_THAT(c.lines, ElementsAre("a\\n", "b\\r", "b\\n", "c\\r", "d\\n"));
}

TEST(LineSplitter, EndlessLineIsCut) {
  Collected c;
  c.splitter.feed(std::string(LineSplitter::kLongestLine + 5, 'x'));
  c.splitter.finish();
  ASSERT_EQ(c.lines.size(), 2U);
  EXPECT_EQ(c.lines[1], "xxxxx\\n");
}

TEST(IsProgress, RedrawsStayOutOfTheLog) {
  EXPECT_TRUE(is_progress("10%", LineEnd::kCarriageReturn));
  EXPECT_TRUE(is_progress("\x1b[2Kbar", LineEnd::kNewline));
  EXPECT_FALSE(is_progress("text", LineEnd::kNewline));
}

TEST(IsWarningOrError, KnowsLogLinesAndAborts) {
  EXPECT_TRUE(is_warning_or_error("12:00:00.123 rank 1 warning: slow"));
  EXPECT_TRUE(is_warning_or_error("12:00:00.123 error: bad"));
  EXPECT_TRUE(is_warning_or_error("terminate called after throwing"));
  EXPECT_FALSE(is_warning_or_error("12:00:00.123 rank 1 info: fine"));
  EXPECT_FALSE(
      is_warning_or_error("12:00:00.123 rank 1 info: the loss of the validation error: 3"));
}

TEST(ConsoleStream, DoesNotWaitForASlowReader) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ConsoleStream stream(ends[1]);
  std::size_t sent = 0;
  for (int i = 0; i < 100; ++i) {  // more than a pipe holds; a blocking write would never return
    const std::string line = std::string(999, 'x') + "\n";
    sent += line.size();
    stream.write(line);
  }
  EXPECT_TRUE(stream.waiting());
  std::string got(sent, '\0');
  std::size_t count = 0;
  while (count < sent) {
    const ssize_t n = ::read(ends[0], got.data() + count, sent - count);
    ASSERT_GT(n, 0);
    count += static_cast<std::size_t>(n);
    stream.flush();
  }
  EXPECT_FALSE(stream.waiting());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ConsoleStream, DropsAndCountsBeyondTheLimit) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ConsoleStream stream(ends[1]);
  const std::string big(std::size_t{1} << 20, 'x');
  for (int i = 0; i < 6; ++i) {
    stream.write(big + "\n");
  }
  std::string got;
  std::vector<char> buffer(1 << 16);
  while (stream.waiting()) {
    const ssize_t n = ::read(ends[0], buffer.data(), buffer.size());
    ASSERT_GT(n, 0);
    got.append(buffer.data(), static_cast<std::size_t>(n));
    stream.flush();
  }
  ::close(ends[1]);
  for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    got.append(buffer.data(), static_cast<std::size_t>(n));
  }
  EXPECT_THAT(got, testing::HasSubstr(" lines were not shown"));
  ::close(ends[0]);
}

TEST(ConsoleStream, SurvivesAClosedReader) {
  ::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  ConsoleStream stream(ends[1]);
  stream.write("text\n");
  EXPECT_FALSE(stream.waiting());
  ::close(ends[1]);
}

}  // namespace
}  // namespace temper
