// The pictures of a folder, with what is known of each without decoding it, in an order that is the same
// wherever the same files lie: classes by name, then files by path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/fnv1a.h"
#include "common/label.h"
#include "worker/images/picture_info.h"

namespace paceline {

// Thread: immutable once it is shared.
class ImageList {
 public:
  explicit ImageList(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // `path`: relative to the folder. `modified`: the file's date, in any unit.
  void add(std::string_view path, Label label, std::int64_t bytes, std::int64_t modified,
           const PictureInfo& info) {
    dates_ = fnv1a(std::to_string(modified) + "\n", dates_);
    images_.push_back({names_.size(), static_cast<std::uint32_t>(path.size()), label, info, bytes});
    names_ += path;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(images_.size()); }
  Label label(std::int64_t image) const { return at(image).label; }
  const PictureInfo& info(std::int64_t image) const { return at(image).info; }
  // Of the file, when it was looked at.
  std::int64_t bytes(std::int64_t image) const { return at(image).bytes; }
  std::int64_t bytes_of_all() const;
  std::string_view name(std::int64_t image) const {
    return std::string_view(names_).substr(at(image).name, at(image).name_size);
  }
  std::filesystem::path path(std::int64_t image) const { return folder_ / name(image); }
  const std::filesystem::path& folder() const { return folder_; }

  // Over each picture's path, length and size in pixels: nodes whose lists differ must not train together.
  std::uint64_t fingerprint() const;
  // Over that and what only this machine's files have: the folder's real path and each file's date. Lists with
  // the same one have the same bytes.
  std::uint64_t fingerprint_of_files() const;

 private:
  struct Image {
    std::uint64_t name = 0;  // where it begins in names_: a million strings of their own are much memory
    std::uint32_t name_size = 0;
    Label label = 0;
    PictureInfo info;
    std::int64_t bytes = 0;
  };
  const Image& at(std::int64_t image) const { return images_[static_cast<std::size_t>(image)]; }

  std::filesystem::path folder_;
  std::uint64_t dates_ = kFnv1aBasis;
  std::string names_;
  std::vector<Image> images_;
};

}  // namespace paceline
