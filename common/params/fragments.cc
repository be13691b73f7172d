#include "common/params/fragments.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace paceline {

Result<std::vector<Range>> fragment_ranges(const Layout& layout, std::int64_t fragments) {
  if (fragments == 1) return std::vector<Range>{{0, layout.size()}};
  const std::vector<Tensor>& tensors = layout.tensors();
  if (fragments > std::ssize(tensors)) {
    return invalid_argument("fragments are of whole tensors, got " + std::to_string(fragments) +
                            ", expected at most " + std::to_string(tensors.size()) + ", of so many tensors");
  }
  std::vector<Range> ranges;
  std::int64_t begin = 0;
  std::size_t next = 0;  // the tensor that begins there
  for (std::int64_t left = fragments; left > 1; --left) {
    // The border that is nearest to an equal share of what is left, which leaves a tensor for each of the others.
    const std::int64_t wanted = begin + (layout.size() - begin) / left;
    const auto last = tensors.size() - static_cast<std::size_t>(left - 1);
    ++next;
    while (next < last &&
           tensors[next].offset + tensors[next].size() - wanted < wanted - tensors[next].offset) {
      ++next;
    }
    ranges.push_back({begin, tensors[next].offset});
    begin = tensors[next].offset;
  }
  ranges.push_back({begin, layout.size()});
  return ranges;
}

}  // namespace paceline
