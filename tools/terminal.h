// Whether what is printed may be coloured.
#pragma once

namespace paceline {

// Whether `fd` is a terminal whose user has not asked for plain text: NO_COLOR set and not empty
// (no-color.org), or TERM dumb. The one place where the environment decides, since that is the convention.
bool takes_colour(int fd);

}  // namespace paceline
