#include "worker/images/image_folder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "common/fnv1a.h"
#include "worker/images/folder_index.h"
#include "worker/images/picture_list.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string class_of(const IndexedFile& file) { return file.path.substr(0, file.path.find('/')); }

std::string fault_of(const IndexedFile& file, const DataSection& data) {
  if (!file.fault.empty()) return file.fault;
  const PictureSize size = file.info.stored;
  if (std::int64_t{size.width} * size.height <= data.max_pixels) return {};
  return std::to_string(size.width) + " x " + std::to_string(size.height) +
         " pixels, expected at most data.max_pixels, " + std::to_string(data.max_pixels);
}

// The folders of the two sets; the same one twice: data.test_share.
struct Folders {
  fs::path train;
  fs::path test;
};
Result<Folders> folders_of(const DataSection& data) {
  const fs::path folder = data.path;
  std::error_code error;
  const auto is_there = [&](const char* name) { return fs::is_directory(folder / name, error); };
  if (!fs::is_directory(folder, error)) {
    return not_found("data folder '" + folder.string() + "': not a directory, expected one with pictures");
  }
  const bool has_train = is_there("train");
  if (data.test_share > 0) {
    if (!has_train) return Folders{folder, folder};
    return invalid_argument("data.test_share: '" + folder.string() +
                            "' has a folder train, expected folders of classes, or no test_share");
  }
  const bool has_test = is_there("test");
  if (has_train && (has_test || is_there("val")))
    return Folders{folder / "train", folder / (has_test ? "test" : "val")};
  return not_found("data folder '" + folder.string() + "' has no folder " +
                   (has_train ? "test or val" : "train") +
                   ", expected train and test (or val), or a data.test_share");
}

// Puts each picture into the list that `is_test` says, what is none into `left_out`.
class Sorter {
 public:
  Sorter(const DataSection& data, ImageFolder& result) : data_(data), result_(result) {}

  // By the folder that each lies in.
  Status add(const FolderIndex& index, const fs::path& folder, const std::vector<std::string>& classes,
             ImageList& list, const std::vector<bool>* taken) {
    const auto label_of = [&](std::size_t i) {
      const auto at = std::lower_bound(classes.begin(), classes.end(), class_of(index.files[i]));
      return static_cast<Label>(at - classes.begin());
    };
    return add_with(index, folder, label_of, list, taken);
  }
  // As the list says, in whose order the files are.
  Status add(const FolderIndex& index, const fs::path& folder, const std::vector<ListedPicture>& listed,
             ImageList& list) {
    return add_with(index, folder, [&](std::size_t i) { return listed[i].label; }, list, nullptr);
  }

 private:
  template <typename LabelOf>
  Status add_with(const FolderIndex& index, const fs::path& folder, const LabelOf& label_of, ImageList& list,
                  const std::vector<bool>* taken) {
    for (std::size_t i = 0; i < index.files.size(); ++i) {
      const IndexedFile& file = index.files[i];
      if (taken != nullptr && !(*taken)[i]) continue;
      if (const std::string fault = fault_of(file, data_); !fault.empty()) {
        std::string line = (folder / file.path).string() + ": " + fault;
        if (data_.on_bad == OnBad::kFail) return data_loss("picture " + line + " (data.on_bad: fail)");
        result_.left_out.push_back(std::move(line));
        continue;
      }
      list.add(file.path, label_of(i), file.bytes, file.modified, file.info);
    }
    return Status::ok();
  }

  const DataSection& data_;
  ImageFolder& result_;
};

Status check_classes(const std::vector<std::string>& classes, const DataSection& data,
                     const fs::path& folder) {
  if (std::ssize(classes) == data.classes) return Status::ok();
  return invalid_argument("data folder '" + folder.string() + "' has " + std::to_string(classes.size()) +
                          (classes.size() == 1 ? " folder of a class" : " folders of classes") +
                          ", expected data.classes, " + std::to_string(data.classes));
}

// That each class has a picture to learn from.
Status check_not_empty(const ImageList& list, const std::vector<std::string>& classes, const char* of_what) {
  std::vector<bool> seen(classes.size());
  for (std::int64_t i = 0; i < list.size(); ++i) seen[list.label(i)] = true;
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return Status::ok();
  const std::string& name = classes[static_cast<std::size_t>(missing - seen.begin())];
  return invalid_argument("class folder '" + (list.folder() / name).string() + "' has no picture" + of_what +
                          " that can be read, expected at least one");
}

// Of each class's pictures those whose paths have the smallest hashes: the same ones on every machine, and
// mostly the same ones when others are added.
std::vector<bool> chosen_for_test(const FolderIndex& index, const DataSection& data) {
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::size_t>>> by_class;
  for (std::size_t i = 0; i < index.files.size(); ++i) {
    const IndexedFile& file = index.files[i];
    if (fault_of(file, data).empty()) by_class[class_of(file)].emplace_back(fnv1a(file.path), i);
  }
  std::vector<bool> chosen(index.files.size());
  for (auto& [name, files] : by_class) {
    std::sort(files.begin(), files.end());
    const auto count =
        static_cast<std::size_t>(std::lround(data.test_share * static_cast<double>(files.size())));
    for (std::size_t i = 0; i < count; ++i) chosen[files[i].second] = true;
  }
  return chosen;
}

void note(const FolderIndex& index, const fs::path& folder, ImageFolder& result) {
  if (!index.warning.empty()) result.warnings.push_back(index.warning);
  if (index.ignored == 0) return;
  result.warnings.push_back(std::to_string(index.ignored) + " files in " + folder.string() +
                            " are not named as pictures are, and are not looked at");
}

fs::path other_index(const fs::path& run_folder, const char* set) {
  return run_folder.empty() ? fs::path() : run_folder / (std::string("images-") + set + ".index");
}

// Where the two lists are, if they are.
struct Lists {
  fs::path train;
  fs::path test;
};
Result<std::optional<Lists>> lists_of(const DataSection& data) {
  const fs::path folder = data.path;
  std::error_code error;
  const auto is_there = [&](const char* name) { return fs::is_regular_file(folder / name, error); };
  if (!is_there("train.txt")) return std::optional<Lists>();
  if (data.test_share > 0) {
    return invalid_argument("data.test_share: '" + folder.string() +
                            "' has a list train.txt, expected folders of classes, or no test_share");
  }
  const bool has_test = is_there("test.txt");
  if (has_test || is_there("val.txt")) {
    return std::optional<Lists>({folder / "train.txt", folder / (has_test ? "test.txt" : "val.txt")});
  }
  return not_found("data folder '" + folder.string() +
                   "' has a list train.txt and no test.txt or val.txt, expected both");
}

Result<ImageFolder> open_lists(const DataSection& data, const Lists& lists, const fs::path& run_folder,
                               std::optional<std::int64_t> ignored_label) {
  ImageFolder result;
  Sorter sorter(data, result);
  const fs::path folder = data.path;
  const auto open = [&](const fs::path& file, const char* set) -> Result<std::shared_ptr<ImageList>> {
    PACELINE_ASSIGN_OR_RETURN(const std::vector<ListedPicture> listed,
                              read_picture_list(file, data.classes, ignored_label));
    std::vector<std::string> paths;
    for (const ListedPicture& picture : listed) paths.push_back(picture.path);
    const std::string index_name = kIndexName + ("-" + file.filename().string());
    PACELINE_ASSIGN_OR_RETURN(const FolderIndex index,
                              index_files(folder, paths, index_name, other_index(run_folder, set)));
    note(index, folder, result);
    auto list = std::make_shared<ImageList>(folder);
    PACELINE_RETURN_IF_ERROR(sorter.add(index, folder, listed, *list));
    return list;
  };
  PACELINE_ASSIGN_OR_RETURN(const auto train, open(lists.train, "train"));
  PACELINE_ASSIGN_OR_RETURN(const auto test, open(lists.test, "test"));
  std::vector<bool> seen(static_cast<std::size_t>(data.classes));
  for (std::int64_t i = 0; i < train->size(); ++i) {
    if (train->label(i) < data.classes) seen[train->label(i)] = true;
  }
  if (const auto missing = std::find(seen.begin(), seen.end(), false); missing != seen.end()) {
    return invalid_argument(
        lists.train.string() + ": no picture of label " + std::to_string(missing - seen.begin()) +
        " that can be read, expected at least one of each of data.classes, " + std::to_string(data.classes));
  }
  if (test->size() == 0) {
    return invalid_argument(lists.test.string() + ": no picture to test with, expected at least one");
  }
  result.train = train;
  result.test = test;
  return result;
}

}  // namespace

Result<ImageFolder> open_image_folder(const DataSection& data, const fs::path& run_folder,
                                      std::optional<std::int64_t> ignored_label) {
  PACELINE_ASSIGN_OR_RETURN(const std::optional<Lists> lists, lists_of(data));
  if (lists) return open_lists(data, *lists, run_folder, ignored_label);
  PACELINE_ASSIGN_OR_RETURN(const Folders folders, folders_of(data));
  ImageFolder result;
  Sorter sorter(data, result);
  auto train = std::make_shared<ImageList>(folders.train);
  auto test = std::make_shared<ImageList>(folders.test);
  PACELINE_ASSIGN_OR_RETURN(const FolderIndex index,
                            index_folder(folders.train, other_index(run_folder, "train")));
  note(index, folders.train, result);
  PACELINE_RETURN_IF_ERROR(check_classes(index.classes, data, folders.train));
  if (folders.train == folders.test) {
    std::vector<bool> chosen = chosen_for_test(index, data);
    PACELINE_RETURN_IF_ERROR(sorter.add(index, folders.test, index.classes, *test, &chosen));
    chosen.flip();
    PACELINE_RETURN_IF_ERROR(sorter.add(index, folders.train, index.classes, *train, &chosen));
  } else {
    PACELINE_RETURN_IF_ERROR(sorter.add(index, folders.train, index.classes, *train, nullptr));
    PACELINE_ASSIGN_OR_RETURN(const FolderIndex tested,
                              index_folder(folders.test, other_index(run_folder, "test")));
    note(tested, folders.test, result);
    for (const std::string& name : tested.classes) {
      if (std::binary_search(index.classes.begin(), index.classes.end(), name)) continue;
      return invalid_argument("class folder '" + (folders.test / name).string() + "' has no counterpart in " +
                              folders.train.string() + ", expected only classes that are trained");
    }
    PACELINE_RETURN_IF_ERROR(sorter.add(tested, folders.test, index.classes, *test, nullptr));
  }
  PACELINE_RETURN_IF_ERROR(
      check_not_empty(*train, index.classes, folders.train == folders.test ? " to learn from" : ""));
  if (test->size() == 0) {
    return invalid_argument("data folder '" + folders.test.string() +
                            "' has no picture to test with, expected at least one");
  }
  result.train = std::move(train);
  result.test = std::move(test);
  return result;
}

}  // namespace paceline
