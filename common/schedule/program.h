// One rank's rows of a plan (common/schedule/plan.h), made ready to be carried out many times.
#pragma once

#include <cstdint>
#include <vector>

#include "common/encode/encoding.h"
#include "common/schedule/plan.h"

namespace paceline::schedule {

struct Program {
  // The rows for one peer in one direction, in their order.
  struct Way {
    std::uint32_t peer = 0;
    bool sends = false;
    std::vector<std::uint32_t> rows;
  };

  // `rank` is one of the plan's; the plan has been checked (common/schedule/check.h). `encoding`: how floats travel,
  // only_rounds() of it.
  Program(const Plan& plan, std::uint32_t rank, Encoding encoding = Encoding::kFp32);

  // Null where nothing goes there.
  const Way* way(std::uint32_t peer, bool sends) const;
  std::size_t bytes_of(const Transfer& row) const {
    return static_cast<std::size_t>(row.range.size()) * (encoding == Encoding::kFp32 ? 4 : 2);
  }

  std::uint32_t rank = 0;
  std::int64_t floats = 0;
  Encoding encoding = Encoding::kFp32;
  Rows rows;
  std::vector<Way> ways;                               // by peer, what is received before what is sent
  std::vector<std::uint32_t> waits;                    // of each row: how many it waits for
  std::vector<std::vector<std::uint32_t>> dependents;  // and which wait for it
};

}  // namespace paceline::schedule
