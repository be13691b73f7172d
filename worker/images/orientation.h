// Exif's orientation: a camera stores what its sensor saw, and how it was held. Values 1 to 8 (CIPA DC-008,
// 4.6.5, Orientation): mirrored, turned, both or neither.
#pragma once

#include <cstdint>

#include "worker/images/picture.h"

namespace paceline {

// Where the part `shown` of a picture that is shown by `orientation` lies in what is stored, of size
// `stored`.
PictureRect stored_part(const PictureRect& shown, std::uint8_t orientation, const PictureSize& stored);

// Writes `stored`, turned and mirrored so that it is as shown, into `shown`, another picture.
void orient(const Picture& stored, std::uint8_t orientation, Picture& shown);

}  // namespace paceline
