// What lies in a folder of pictures, or is listed in a file. Each file's head is read once: what it said is kept in an
// index, beside the data where that can be written, else in the run directory. A file that is new, or has another
// length or date than in the index, is looked at again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/status.h"
#include "worker/images/picture_info.h"

namespace paceline {

struct IndexedFile {
  std::string path;  // relative to the folder: its class, then its name; of a list as that has it
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  // nanoseconds since some time that the file system knows
  PictureInfo info{};
  std::string fault{};  // why it is not a picture; empty: it is one
  bool is_kept = true;  // in the index; false: it could not be read, which may be otherwise the next time
};

struct FolderIndex {
  std::vector<std::string> classes;  // folders that may be empty, by name
  std::vector<IndexedFile> files;    // by path; those of one class together
  std::int64_t ignored = 0;          // files whose names do not end as a picture's
  std::int64_t heads_read = 0;       // files whose heads were read this time
  std::string warning;               // the index could not be written anywhere, and why; empty: it was
};

// The name of the index in the folder of the pictures.
inline constexpr const char* kIndexName = ".paceline-index";

// All files in the folders of `folder`, at any depth, that are named .jpg, .jpeg, .jpe, .jfif or .png, in
// capitals or not. Hidden ones are not seen. `other_index`: where the index goes if `folder` cannot be
// written, in a directory that is made if need be; empty: nowhere. Several threads read. Errors: kNotFound no such
// folder; kUnavailable it cannot be listed; kResourceExhausted no descriptors or memory are left to read files with.
Result<FolderIndex> index_folder(const std::filesystem::path& folder,
                                 const std::filesystem::path& other_index);

// The same of the files that `paths` names, relative to `folder`, in their order; there are no classes. The index
// beside them is named `index_name`.
Result<FolderIndex> index_files(const std::filesystem::path& folder, const std::vector<std::string>& paths,
                                const std::string& index_name, const std::filesystem::path& other_index);

// The file's head and end. Errors: those of read_picture_head(); kDataLoss it is cut off; those of read_picture().
Result<PictureInfo> read_picture_info(const std::filesystem::path& file);

}  // namespace paceline
