#include "common/schedule/halves.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "common/schedule/builder.h"

namespace paceline::schedule {
namespace {

using Marks = std::vector<std::vector<bool>>;  // of each rank's rows

// Which rows belong to the copies: what is put in place of what is there, and what sends that. What goes to one peer
// keeps the order of the table at both ends.
Marks copies_of(const Plan& plan) {
  Marks copies;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<bool>> coming;  // from, to
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    copies.emplace_back(plan.ranks[rank].size());
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const Transfer& row = plan.ranks[rank][i];
      if (row.kind == TransferKind::kSend) continue;
      copies[rank][i] = row.kind == TransferKind::kReceive;
      coming[{row.peer, rank}].push_back(copies[rank][i]);
    }
  }
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> sent;
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const Transfer& row = plan.ranks[rank][i];
      if (row.kind != TransferKind::kSend) continue;
      copies[rank][i] = coming[{rank, row.peer}].at(sent[{rank, row.peer}]++);
    }
  }
  return copies;
}

// Those rows of a rank for which `wanted` says so, which wait for each other as before.
Rows take_rows(const Rows& rows, const std::vector<bool>& copies, bool wanted) {
  Rows taken;
  std::vector<std::uint32_t> number(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (copies[i] != wanted) continue;
    number[i] = static_cast<std::uint32_t>(taken.size());
    Transfer row = rows[i];
    std::erase_if(row.after, [&](std::uint32_t before) { return copies[before] != wanted; });
    for (std::uint32_t& before : row.after) before = number[before];
    taken.push_back(std::move(row));
  }
  return taken;
}

// In order, neighbours as one.
void add_range(std::vector<Range>& ranges, Range range) {
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

// A rank owns what it sends on without having been sent it; of one rank alone, all.
std::vector<std::vector<Range>> owned_of(const Plan& copies) {
  std::vector<std::vector<Range>> owned(copies.ranks.size());
  if (copies.ranks.size() == 1) {
    if (copies.floats > 0) owned[0].push_back({0, copies.floats});
    return owned;
  }
  for (std::size_t rank = 0; rank < copies.ranks.size(); ++rank) {
    std::vector<std::int64_t> ends = {0, copies.floats};
    for (const Transfer& row : copies.ranks[rank]) {
      ends.insert(ends.end(), {row.range.begin, row.range.end});
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    std::vector<bool> sends(ends.size());
    std::vector<bool> receives(ends.size());
    const auto at = [&](std::int64_t end) { return std::lower_bound(ends.begin(), ends.end(), end); };
    for (const Transfer& row : copies.ranks[rank]) {
      std::vector<bool>& marks = row.kind == TransferKind::kSend ? sends : receives;
      std::fill(marks.begin() + (at(row.range.begin) - ends.begin()),
                marks.begin() + (at(row.range.end) - ends.begin()), true);
    }
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      if (sends[i] && !receives[i]) add_range(owned[rank], {ends[i], ends[i + 1]});
    }
  }
  return owned;
}

Status check_owned(const Plan& plan, const std::vector<std::vector<Range>>& owned) {
  std::vector<Range> all;
  for (const auto& of_rank : owned) all.insert(all.end(), of_rank.begin(), of_rank.end());
  std::sort(all.begin(), all.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const Range& range : all) {
    if (range.begin != end) break;
    end = range.end;
  }
  if (end == plan.floats) return Status::ok();
  return invalid_argument(plan.name + ": float " + std::to_string(end) + " has other than one owner");
}

}  // namespace

void Halves::keep(const std::vector<std::uint32_t>& keepers, std::int64_t segment_floats) {
  for (std::uint32_t rank = 0; rank < owned.size(); ++rank) {
    const std::uint32_t keeper = keepers[rank];
    if (keeper == rank) continue;
    for (const Range& range : owned[rank]) {
      add_transfers(sums.ranks, rank, keeper, range, segment_floats, TransferKind::kReceive);
    }
  }
  for (Rows& rows : sums.ranks) order_conflicts(rows);
}

// With fewer rows to wait for than there are, so more orders are tried than can come to pass.
Plan Halves::whole() const {
  Plan plan = sums;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    Rows& rows = plan.ranks[rank];
    rows.insert(rows.end(), copies.ranks[rank].begin(), copies.ranks[rank].end());
    order_conflicts(rows);
  }
  return plan;
}

std::vector<std::uint32_t> keepers_of(const std::vector<bool>& owns, bool keeps) {
  const auto ranks = static_cast<std::uint32_t>(owns.size());
  std::vector<std::uint32_t> keepers(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    keepers[rank] = rank;
    if (!keeps) continue;
    do {
      keepers[rank] = (keepers[rank] + 1) % ranks;
    } while (keepers[rank] != rank && !owns[keepers[rank]]);
  }
  return keepers;
}

Result<Halves> halves_of(const Plan& plan) {
  const Marks copies = copies_of(plan);
  Halves halves{{plan.name, plan.floats, {}}, {plan.name, plan.floats, {}}, {}};
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const Rows& rows = plan.ranks[rank];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool waits =
          !copies[rank][i] && std::any_of(rows[i].after.begin(), rows[i].after.end(),
                                          [&](std::uint32_t row) { return copies[rank][row]; });
      if (waits) {
        return invalid_argument(plan.name + ": a sum of rank " + std::to_string(rank) +
                                " waits for what is copied");
      }
    }
    halves.sums.ranks.push_back(take_rows(rows, copies[rank], false));
    halves.copies.ranks.push_back(take_rows(rows, copies[rank], true));
  }
  halves.owned = owned_of(halves.copies);
  PACELINE_RETURN_IF_ERROR(check_owned(plan, halves.owned));
  return halves;
}

}  // namespace paceline::schedule
