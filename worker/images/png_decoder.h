// Decodes a PNG of any kind to RGB, with libpng.
#pragma once

#include <cstdint>
#include <span>

#include "common/status.h"
#include "worker/images/picture.h"
#include "worker/images/picture_info.h"

namespace paceline {

// Writes all pixels into `picture`: palettes and grey become RGB, 16 bits become 8 (rounded), transparency is
// dropped as Pillow's convert("RGB") drops it. Gamma and colour profiles are not applied. `info`: what
// read_picture_head() said. Errors: kDataLoss it is broken, with the library's words, or it has another size
// than `info`. Thread: any.
Status decode_png(std::span<const std::uint8_t> file, const PictureInfo& info, Picture& picture);

}  // namespace paceline
