// What is known of the terminal that is printed to.
#pragma once

#include <cstddef>

namespace paceline {

// Whether `fd` is a terminal whose user has not asked for plain text: NO_COLOR set and not empty
// (no-color.org), or TERM dumb. The one place where the environment decides, since that is the convention.
bool takes_colour(int fd);

// How many columns the terminal `fd` has; 0 where it is none, or does not say.
std::size_t columns_of(int fd);

}  // namespace paceline
