#include "worker/images/image_list.h"

#include <system_error>

#include "common/hex.h"

namespace paceline {

std::int64_t ImageList::bytes_of_all() const {
  std::int64_t sum = 0;
  for (const Image& image : images_) sum += image.bytes;
  return sum;
}

std::uint64_t ImageList::fingerprint() const {
  std::uint64_t hash = kFnv1aBasis;
  for (std::int64_t i = 0; i < size(); ++i) {
    const PictureInfo& picture = info(i);
    hash = fnv1a(name(i), hash);
    hash =
        fnv1a(" " + std::to_string(label(i)) + " " + std::to_string(bytes(i)) + " " +
                  std::to_string(picture.stored.width) + " " + std::to_string(picture.stored.height) + "\n",
              hash);
  }
  return hash;
}

std::uint64_t ImageList::fingerprint_of_files() const {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(folder_, error);
  return fnv1a((error ? folder_ : real).string() + "\n" + hex(dates_) + hex(fingerprint()));
}

}  // namespace paceline
