#include "common/schedule/buckets.h"

#include <ranges>

namespace paceline::schedule {

std::vector<Range> buckets(const Layout& layout, std::int64_t bucket_bytes) {
  std::vector<Range> cut;
  std::int64_t end = layout.size();
  std::int64_t begin = end;
  for (const Tensor& tensor : std::views::reverse(layout.tensors())) {
    begin -= tensor.size();
    if ((end - begin) * std::int64_t{sizeof(float)} < bucket_bytes) continue;
    cut.push_back({begin, end});
    end = begin;
  }
  if (end > 0) cut.push_back({0, end});
  return cut;
}

}  // namespace paceline::schedule
