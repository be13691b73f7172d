// Text that crosses the network ends up in logs, in JSON and on terminals, so it is printable UTF-8 and
// bounded: what we send is made so, and what we receive must be so.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline::wire {

// Whether `text` is well-formed UTF-8 (RFC 3629: no overlong forms, surrogates or code points above U+10FFFF)
// without control characters (below U+0020, and U+007F).
bool is_printable(std::string_view text);

// `text` as it may be sent: a control character becomes a space, a byte that is no UTF-8 becomes '?', and
// what exceeds `bytes_max` is cut off before the character that does not fit.
std::string printable(std::string_view text, std::size_t bytes_max);

}  // namespace paceline::wire
