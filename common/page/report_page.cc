#include "common/page/report_page.h"

#include "common/assert.h"
#include "common/files/atomic_file.h"
#include "common/page/page_data.h"

namespace paceline {
namespace {

constexpr std::string_view kDataPlace = "@PACELINE_DATA@";

}  // namespace

std::string page_with(std::string_view data) {
  const std::string_view page = page_template();
  const std::size_t place = page.find(kDataPlace);
  PACELINE_ASSERT(place != std::string_view::npos, "web/dist/page.html has no place for the data");
  std::string text;
  text.reserve(page.size() + data.size());
  text += page.substr(0, place);
  text += data;
  text += page.substr(place + kDataPlace.size());
  return text;
}

Result<WrittenPage> write_page(const std::filesystem::path& out, std::span<const std::string> folders,
                               const std::optional<ClockRange>& clocks) {
  PACELINE_ASSIGN_OR_RETURN(PageData data, page_data(folders, clocks));
  const std::string page = page_with(data.json);
  PACELINE_RETURN_IF_ERROR(write_file_atomically(out, page));
  return WrittenPage{page.size(), std::move(data.missing)};
}

}  // namespace paceline
