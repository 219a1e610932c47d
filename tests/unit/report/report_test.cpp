#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/plot.h"
#include "report/png.h"
#include "support/scratch_folder.h"
#include "temper/core/error.h"
#include "temper/core/file.h"
#include "temper/report/html.h"
#include "unit/metrics/records.h"

namespace temper {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportData sample_report() {
  ReportData data;
  data.title = "run <1> & \"two\"";
  data.configuration = "name: <script>alert(1)</script>\n";
  for (int update = 1; update <= 5; ++update) {
    data.metrics.train.push_back(train_record(1, update));
  }
  data.metrics.validation.push_back(validation_record(1, 5));
  data.metrics.events.push_back({"bad_sample", 1, 2, {{"path", "<b>.png"}}});
  const Pixels clean{2, 2, 3, std::vector<std::uint8_t>(12, 100)};
  Pixels adversarial = clean;
  adversarial.bytes[0] = 108;
  data.examples.push_back({clean, adversarial, "cat", "cat", "dog"});
  return data;
}

TEST(Report, HoldsTheNumbersCurvesAndImages) {
  const std::string page = render_report(sample_report());
  for (const char* part : {"93.33 %", "60.83 %", "pgd-20", "<polyline", "Learning rate",
                           "data:image/png;base64,iVBORw0KGgo", "x 15", "dog"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(Report, EscapesAllText) {
  const std::string page = render_report(sample_report());
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(page, HasSubstr("run &lt;1&gt; &amp; &quot;two&quot;"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;.png"));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(Report, NeedsNothingFromOutside) {
  const std::string page = render_report(sample_report());
  for (const char* part : {"http:", "https:", "//", "<link", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(part)));
  }
}

TEST(Report, ARunWithoutRecordsHasAPageToo) {
  const ScratchFolder folder;
  write_report(folder / "report.html",
               {.title = "empty", .metrics = {}, .configuration = "", .examples = {}});
  const std::string page = read_file(folder / "report.html");
  EXPECT_THAT(page, HasSubstr("no validation yet"));
  EXPECT_THAT(page, Not(HasSubstr("<svg")));
}

TEST(Report, ImagesOfDifferentShapeAreABug) {
  ReportData data = sample_report();
  data.examples[0].adversarial = {1, 1, 3, {1, 2, 3}};
  EXPECT_THROW(static_cast<void>(render_report(data)), CheckFailure);
}

TEST(Plot, LeavesOutWhatIsNotFinite) {
  const std::vector<Curve> curves = {{"a", {{0, 1}, {1, kNotANumber}, {2, 3}}}};
  const std::string svg = svg_plot("t", curves, Axis::kValue);
  EXPECT_THAT(svg, HasSubstr("points=\"56.0,230.0 448.0,44.0\""));
  EXPECT_EQ(svg_plot("t", std::vector<Curve>{{"a", {{0, kNotANumber}}}}, Axis::kValue), "");
}

TEST(Plot, ConstantAndSingleValuesAreDrawn) {
  EXPECT_THAT(svg_plot("t", std::vector<Curve>{{"a", {{5, 0}}}}, Axis::kValue),
              HasSubstr("<circle"));
  EXPECT_THAT(svg_plot("t", std::vector<Curve>{{"a", {{1, 7}, {2, 7}}}}, Axis::kValue),
              HasSubstr("56.0,137.0 448.0,137.0"));
}

// RFC 4648, section 10.
TEST(Base64, GivesThePublishedValues) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace temper
