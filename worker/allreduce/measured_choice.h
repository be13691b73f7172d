// exchange.algorithm: auto. Which algorithm is the fastest for buckets of a size is measured at the start, on the run's
// own connections: every candidate is carried out some times in turns, on zeros. Ranks then tell each other their times
// by an all-reduce, so that all see the same bits, and choose alike. NCCL chooses by a model of latency and bandwidth,
// Open MPI by a table of its authors' machines; neither knows these.
//
// Sizes are taken together by powers of four: of each class its largest is measured, as many of them together as a step
// has under way. All classes share kMeasureAtMost,
// but for the first turn of each: small ones, which come first, leave most of theirs to the large ones. Who takes half
// as long again as the fastest takes no further turn of that class, so that there are more for those that are near each
// other. The median counts: of few turns the least says who was lucky (of 64 MiB among two processes singles vary by a
// third, medians of eight by a tenth, which is what lies between the first two algorithms).
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/instant.h"
#include "common/schedule/planners.h"
#include "common/status.h"
#include "worker/mesh/mesh.h"

namespace paceline {

inline constexpr std::chrono::milliseconds kMeasureAtMost(1000);

struct MeasuredChoice {
  struct Time {
    schedule::Algorithm algorithm = schedule::Algorithm::kRing;
    // Of a bucket, its share where several are under way together. The median of the turns, of the slowest rank; the
    // first, which wakes what sleeps, counts only where it is the last.
    double seconds = 0.0;
  };
  std::int64_t floats = 0;  // of a bucket, at most: those of the next smaller choice are below it
  std::vector<Time> times;  // of each candidate; the fastest is chosen, of equals the first
  const Time& fastest() const;
  schedule::Algorithm chosen() const { return fastest().algorithm; }
  // "up to 1048576 floats: ring 3.1 ms, direct 4.2 ms: ring"
  std::string words() const;
};

// Where a node is among those that sum.
struct FormationPlace {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::vector<std::uint32_t> machines;  // of each rank (schedule::PlanRequest)
};

struct MeasureRequest {
  FormationPlace place;
  std::span<const std::int64_t> floats;  // of each bucket, in any order
  std::span<float> vector;               // as many as all, or at least as each; what is in it is lost
  Encoding encoding = Encoding::kFp32;
  std::chrono::milliseconds silence{0};  // Mesh::reduce()'s
  Ticks (*now)() = nullptr;
  bool in_equal_parts =
      false;  // candidates sum as much at each rank, as far as they can; sums, then copies as fp32
};

// What is measured, in turns.
std::vector<schedule::Algorithm> candidates(const MeasureRequest& request);
// Of each class its largest, ascending.
std::vector<std::int64_t> classes_of(std::span<const std::int64_t> floats);

// Ascending by floats, the same on every rank. `reductions`: of the mesh, counted on. Errors:
// Mesh::reduce()'s.
Result<std::vector<MeasuredChoice>> measure_choices(const MeasureRequest& request, mesh::Mesh& mesh,
                                                    std::uint32_t& reductions);

// Of a bucket: by its class. `choices` is not empty, and has one of at least so many floats.
schedule::Algorithm chosen_for(const std::vector<MeasuredChoice>& choices, std::int64_t floats);

}  // namespace paceline
