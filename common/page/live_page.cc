#include "common/page/live_page.h"

#include <optional>
#include <span>

#include "common/assert.h"
#include "common/page/page_data.h"
#include "common/page/report_page.h"

namespace paceline {
namespace {

// The page's own policy lets it ask nobody.
constexpr std::string_view kAskNobody = "default-src 'none';";
constexpr std::string_view kAskThisServer = "default-src 'none'; connect-src 'self';";

}  // namespace

Result<std::string> live_data(const std::string& folder) {
  const Result<PageData> made = page_data(std::span(&folder, 1), std::nullopt, PageOf::kLiveRun);
  PACELINE_RETURN_IF_ERROR(made.status());
  const std::string& json = made->json;
  PACELINE_ASSERT(json.starts_with("{"), "the page's data is no object");
  return "{\"live\":true," + json.substr(1);
}

Result<std::string> live_page(const std::string& folder) {
  PACELINE_ASSIGN_OR_RETURN(const std::string data, live_data(folder));
  std::string page = page_with(data);
  const std::size_t policy = page.find(kAskNobody);
  PACELINE_ASSERT(policy != std::string::npos, "web/dist/page.html has no content security policy");
  return page.replace(policy, kAskNobody.size(), kAskThisServer);
}

}  // namespace paceline
