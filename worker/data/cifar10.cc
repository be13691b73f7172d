// The reader of CIFAR-10's binary format; see cifar10.h.
#include "worker/data/cifar10.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHowToGetData =
    "generate a data set with `paceline data synthesize --out DIR`, or unpack CIFAR-10's binary version, and "
    "set "
    "data.path to its folder";

// What a folder without data_batch_<n>.bin holds instead, where that is something well known; else nothing.
std::string other_data_in(const fs::path& folder) {
  std::error_code error;
  const auto holds = [&](const fs::path& name) { return fs::exists(folder / name, error); };
  if (holds("cifar-10-batches-bin")) {
    return "it is one level too high: data.path is to be its folder cifar-10-batches-bin";
  }
  for (const char* below : {"cifar-10-batches-py", "cifar-100-binary", "cifar-100-python"}) {
    if (holds(below)) return "its folder " + std::string(below) + " is not CIFAR-10's binary version";
  }
  if (holds("data_batch_1")) return "it is CIFAR-10's Python version (data_batch_1), which is not read";
  if (holds("fine_label_names.txt") || (holds("train.bin") && holds("test.bin"))) {
    return "it is CIFAR-100 (train.bin), which has other labels and is not read";
  }
  if (holds("train") && holds("meta")) return "it is CIFAR-100's Python version (train), which is not read";
  for (const char* archive : {"cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"}) {
    if (holds(archive)) return "it holds " + std::string(archive) + ", which is not unpacked";
  }
  return "";
}

Status check_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return Status::ok();
  const bool exists = fs::exists(folder, error);
  return not_found("data folder '" + folder.string() +
                   (exists ? "' is not a folder; " : "' does not exist; ") + kHowToGetData);
}

struct NumberedFile {
  std::uint64_t number = 0;
  fs::path path;
};

// The number of "data_batch_<n>.bin"; false when `name` is another file's. More than nine digits is no number
// here.
Result<bool> parse_batch_name(const fs::path& path, std::uint64_t& number) {
  constexpr std::string_view kPrefix = "data_batch_";
  constexpr std::string_view kSuffix = ".bin";
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  const std::string_view digits =
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return invalid_argument("data file '" + path.string() + "': got '" + std::string(digits) +
                            "' where a number is expected (data_batch_<n>.bin); move the file away");
  }
  number = std::stoull(std::string(digits));
  return true;
}

// Numeric order: data_batch_10 comes after data_batch_9, and the same on every machine whatever its folder
// order.
Result<std::vector<NumberedFile>> find_batches(const fs::path& folder) {
  std::vector<NumberedFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    NumberedFile file{0, it->path()};
    PACELINE_ASSIGN_OR_RETURN(const bool is_batch, parse_batch_name(file.path, file.number));
    if (is_batch) files.push_back(std::move(file));
  }
  if (error) return unavailable("data folder '" + folder.string() + "': cannot list it: " + error.message());
  std::sort(files.begin(), files.end(), [](const NumberedFile& a, const NumberedFile& b) {
    return std::tie(a.number, a.path) < std::tie(b.number, b.path);
  });
  // A file that did not arrive, or arrived twice, would train on other data than everybody thinks.
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].number == i + 1) continue;
    if (i > 0 && files[i].number == files[i - 1].number) {
      return invalid_argument("data folder '" + folder.string() + "': both " +
                              files[i - 1].path.filename().string() + " and " +
                              files[i].path.filename().string() + " are number " +
                              std::to_string(files[i].number) + "; move one away");
    }
    return not_found("data folder '" + folder.string() + "': got " + files[i].path.filename().string() +
                     ", expected data_batch_" + std::to_string(i + 1) +
                     ".bin before it (numbers from 1, without gaps)");
  }
  return files;
}

Status check_whole(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  const std::string who = "data file '" + file.string() + "'";
  if (error) return not_found(who + ": " + error.message() + "; data.kind: cifar10 has it");
  constexpr std::uintmax_t kSize = kCifar10Records * kRecordSize;
  if (size == kSize) return Status::ok();
  return data_loss(who + ": got " + std::to_string(size) + " bytes, expected " + std::to_string(kSize) +
                   " (" + std::to_string(kCifar10Records) +
                   " records) of data.kind: cifar10; it is truncated, or another data set");
}

}  // namespace

Status check_whole_cifar10(const fs::path& folder) {
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<NumberedFile> files, find_batches(folder));
  if (files.empty()) return Status::ok();  // which read_cifar10_train() says better
  for (std::int64_t number = 1; number <= kCifar10Batches; ++number) {
    PACELINE_RETURN_IF_ERROR(check_whole(folder / ("data_batch_" + std::to_string(number) + ".bin")));
  }
  if (std::ssize(files) > kCifar10Batches) {
    return invalid_argument(
        "data file '" + files[kCifar10Batches].path.string() +
        "': data.kind: cifar10 has data_batch_1.bin to data_batch_5.bin alone; move it away");
  }
  return check_whole(folder / "test_batch.bin");
}

Status read_cifar10_file(const fs::path& file, DataSet& set) {
  const std::string who = "data file '" + file.string() + "'";
  std::error_code error;
  if (!fs::exists(file, error)) return not_found(who + " does not exist; " + kHowToGetData);
  const std::uintmax_t size = fs::file_size(file, error);
  if (error) return unavailable(who + ": cannot read it: " + error.message());
  if (size == 0) return data_loss(who + " is empty, expected records of 3073 bytes");
  const auto records = static_cast<std::int64_t>(size / kRecordSize);
  if (size % kRecordSize != 0) {
    return data_loss(who + ": got " + std::to_string(size) + " bytes, expected a multiple of 3073 (" +
                     std::to_string(records * kRecordSize) + " or " +
                     std::to_string((records + 1) * kRecordSize) +
                     "); it is truncated or not CIFAR-10's binary format");
  }

  std::ifstream in(file, std::ios::binary);
  if (!in) return unavailable(who + ": cannot open it: " + std::strerror(errno));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (in.gcount() != static_cast<std::streamsize>(bytes.size())) {
    return data_loss(who + ": got " + std::to_string(in.gcount()) + " bytes, expected " +
                     std::to_string(size));
  }

  for (std::int64_t record = 0; record < records; ++record) {
    const unsigned label = bytes[static_cast<std::size_t>(record * kRecordSize)];
    if (label >= kClasses) {
      return data_loss(who + ", record " + std::to_string(record) + ": label " + std::to_string(label) +
                       ", expected 0..9; it is corrupted or not CIFAR-10's binary format");
    }
  }
  const std::int64_t before = set.size();
  set.labels.resize(static_cast<std::size_t>(before + records));
  set.pixels.resize(static_cast<std::size_t>((before + records) * kImageSize));
  for (std::int64_t record = 0; record < records; ++record) {
    const std::uint8_t* source = bytes.data() + record * kRecordSize;
    set.labels[static_cast<std::size_t>(before + record)] = *source;
    std::copy_n(source + 1, kImageSize, set.pixels.data() + (before + record) * kImageSize);
  }
  return Status::ok();
}

Result<DataSetPtr> read_cifar10_train(const fs::path& folder) {
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<NumberedFile> files, find_batches(folder));
  if (files.empty()) {
    const std::string other = other_data_in(folder);
    return not_found("data folder '" + folder.string() + "' holds no data_batch_<n>.bin" +
                     (other.empty() ? "" : ": " + other) + "; " + kHowToGetData);
  }
  auto set = std::make_shared<DataSet>();
  for (const NumberedFile& file : files) PACELINE_RETURN_IF_ERROR(read_cifar10_file(file.path, *set));
  return DataSetPtr(std::move(set));
}

Result<DataSetPtr> read_cifar10_test(const fs::path& folder) {
  PACELINE_RETURN_IF_ERROR(check_folder(folder));
  auto set = std::make_shared<DataSet>();
  PACELINE_RETURN_IF_ERROR(read_cifar10_file(folder / "test_batch.bin", *set));
  return DataSetPtr(std::move(set));
}

}  // namespace paceline
