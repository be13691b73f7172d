// What the planners are made of: rows said once for both ends, and the two halves of an all-reduce, scattering
// sums and gathering them, along a ring of any ranks. Internal to common/schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "common/params/borders.h"
#include "common/schedule/plan.h"

namespace paceline::schedule {

// The floats of `range` go from one rank to another, which takes them as `as` says: rows at the end of both tables, a
// segment of at most so many floats each.
void add_transfers(std::vector<Rows>& rows, std::uint32_t from, std::uint32_t to, Range range,
                   std::int64_t segment_floats, TransferKind as);

// Of `count` parts of one tensor, at `share` (cut_at()), the one numbered floor(share * count) is all of it. Where
// parts are cut again that is by this share, so that what the first cut has not used says who has it.
double share_within(double share, std::uint32_t count);

class Builder {
 public:
  // `borders`: PlanRequest's, which outlive it.
  Builder(std::uint32_t ranks, std::int64_t segment_floats, const Borders& borders)
      : segment_(segment_floats), borders_(borders), rows_(ranks) {}

  // Nearly equal parts of `whole`, each beginning at a multiple of 16 floats (a cache line) from its begin; or, where
  // there are borders, at one of them, as cut_at() says with `share`.
  std::vector<Range> parts(Range whole, std::uint32_t count, double share) const;

  // The floats of `range` go from one rank to another, which puts them in place of its own, or adds them;
  // in segments. Nothing where it is empty.
  void move(std::uint32_t from, std::uint32_t to, Range range) {
    send(from, to, range, TransferKind::kReceive);
  }
  void add(std::uint32_t from, std::uint32_t to, Range range) { send(from, to, range, TransferKind::kAdd); }

  // Along the ring of `members`, each of which has all of `whole`: member i ends with the sum of
  // parts(whole, members, share)[i].
  void scatter_ring(const std::vector<std::uint32_t>& members, Range whole, double share);
  // The other way round: each member ends with every part, of which member i has the i-th.
  void gather_ring(const std::vector<std::uint32_t>& members, Range whole, double share);

  // The rows so far, with their order.
  std::vector<Rows> finish() &&;

 private:
  void send(std::uint32_t from, std::uint32_t to, Range range, TransferKind as) {
    add_transfers(rows_, from, to, range, segment_, as);
  }

  std::int64_t segment_;
  const Borders& borders_;
  std::vector<Rows> rows_;
};

}  // namespace paceline::schedule
