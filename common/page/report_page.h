// `paceline report --html OUT RUN…`: one HTML file that opens from disk, without a network, and shows the
// runs (docs/REPORT.md). The page is made once, by scripts/build_page.sh, and is part of this program; a
// report is the page with the runs' data in the place that it leaves open.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/page/clock_range.h"
#include "common/status.h"

namespace paceline {

// web/dist/page.html, as it was when this program was built.
std::string_view page_template();

// The page with this JSON, as page_data() makes it, in its place.
std::string page_with(std::string_view data);

struct WrittenPage {
  std::size_t bytes = 0;
  std::vector<std::string> missing;  // what the run directories lack: common/page/page_data.h
};

// Writes the page to `out`, whole or not at all. Errors: those of page_data(), whose arguments the others
// are, and of write_file_atomically().
Result<WrittenPage> write_page(const std::filesystem::path& out, std::span<const std::string> folders,
                               const std::optional<ClockRange>& clocks = std::nullopt);

}  // namespace paceline
