#include "worker/images/picture_list.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "common/files/atomic_file.h"

namespace paceline {

Result<std::vector<ListedPicture>> read_picture_list(const std::filesystem::path& file, std::int64_t classes,
                                                     std::optional<std::int64_t> ignored) {
  constexpr std::size_t kBytesMax = std::size_t{4} << 30;
  PACELINE_ASSIGN_OR_RETURN(const std::string text, read_file(file, kBytesMax));
  std::vector<ListedPicture> pictures;
  std::int64_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    const std::size_t space = line.find_last_of(" \t");
    const std::size_t path_end =
        space == std::string_view::npos ? space : line.find_last_not_of(" \t", space);
    std::int64_t label = 0;
    bool is_line = path_end != std::string_view::npos;
    if (is_line) {
      const char* const end = line.data() + line.size();
      const auto read = std::from_chars(line.data() + space + 1, end, label);
      is_line = read.ec == std::errc() && read.ptr == end;
    }
    if (!is_line || ((label < 0 || label >= classes) && label != ignored)) {
      return invalid_argument(file.string() + ":" + std::to_string(number) + ": got \"" + std::string(line) +
                              "\", expected a path and a label of 0 to " + std::to_string(classes - 1) +
                              (ignored ? ", or the ignored " + std::to_string(*ignored) : ""));
    }
    pictures.push_back({std::string(line.substr(0, path_end + 1)), static_cast<Label>(label)});
  }
  return pictures;
}

}  // namespace paceline
