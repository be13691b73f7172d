// The page of `paceline report --html` for a run that goes: the same page, which a browser gets from the
// server and which then keeps itself up to date (docs/LIVE.md). It may ask the server it came from, and
// nobody else.
//
// Thread: any.
#pragma once

#include <string>

#include "common/status.h"

namespace paceline {

// The whole page, with what the run directory has now. Errors: those of page_data().
Result<std::string> live_page(const std::string& folder);
// The numbers that it draws, as JSON: to be asked for again when there are more of them.
Result<std::string> live_data(const std::string& folder);

}  // namespace paceline
