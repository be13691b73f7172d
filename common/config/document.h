// From YAML text to a tree of Values. The only file that sees yaml-cpp is document.cc. Internal to
// common/config, and to sweep/, whose grids are YAML too.
#pragma once

#include <string>
#include <string_view>

#include "common/config/value.h"
#include "common/status.h"

namespace paceline::config {

// The one document in `text`, which must be a map; `source` is how errors and places name it.
// Errors (kInvalidArgument, one line): syntax, an empty text, more than one document, a top that is no map, a
// key that is repeated or is not a plain word, and a text that nests or multiplies (aliases) beyond any
// configuration.
Result<Value> read_document(std::string_view text, const std::string& source);

// The value of one `key=value` argument: a scalar, list or map in YAML's flow style. `key` is for the
// message.
Result<Value> read_argument(const std::string& text, const std::string& key);

}  // namespace paceline::config
