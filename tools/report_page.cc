#include "tools/report_page.h"

#include "common/assert.h"
#include "common/files/atomic_file.h"
#include "tools/page_data.h"

namespace paceline {
namespace {

constexpr std::string_view kDataPlace = "@PACELINE_DATA@";

}  // namespace

Result<WrittenPage> write_page(const std::filesystem::path& out, std::span<const std::string> folders) {
  PACELINE_ASSIGN_OR_RETURN(PageData data, page_data(folders));
  const std::string_view page = page_template();
  const std::size_t place = page.find(kDataPlace);
  PACELINE_ASSERT(place != std::string_view::npos, "web/dist/page.html has no place for the data");
  const std::string_view before = page.substr(0, place), after = page.substr(place + kDataPlace.size());
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  PACELINE_RETURN_IF_ERROR(write_file_atomically(out, {bytes(before), bytes(data.json), bytes(after)}));
  return WrittenPage{before.size() + data.json.size() + after.size(), std::move(data.missing)};
}

}  // namespace paceline
