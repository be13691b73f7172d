#include "worker/allreduce/measured_choice.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "common/assert.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/halves.h"

namespace paceline {
namespace {

using schedule::Algorithm;

constexpr int kTurnsMax = 32;
// What takes so many times as long as the fastest, once all have had their turns, takes no more of them.
constexpr double kSlowdownMax = 1.5;
constexpr int kTurnsOfAll = 3;
// What takes so many times as long as the fastest is not tried on larger buckets.
constexpr double kHopeless = 4.0;
// With more ranks than this nobody is to connect to all at once, nor to hand on whole vectors.
constexpr std::uint32_t kFewRanks = 64;

// Sizes within a power of four are one class.
int class_of(std::int64_t floats) { return std::bit_width(static_cast<std::uint64_t>(floats)) / 2; }

// How many buckets of a size are under way together, if all of its class are there.
std::int64_t together_of(const MeasureRequest& request, std::int64_t floats) {
  const auto of_class =
      std::count_if(request.floats.begin(), request.floats.end(),
                    [floats](std::int64_t size) { return class_of(size) == class_of(floats); });
  const std::int64_t room = std::ssize(request.vector) / floats;
  return std::min({std::int64_t{schedule::kBucketsInFlight}, std::int64_t{of_class}, room});
}

// A plan that its checker refuses would be our own bug, and is not run.
schedule::Plan checked_plan(const MeasureRequest& request, Algorithm algorithm, std::int64_t floats) {
  schedule::PlanRequest wanted{algorithm, request.place.ranks, floats, {}};
  wanted.machines = request.place.machines;
  Result<schedule::Plan> plan = schedule::make_plan(wanted);
  const Status checked = plan.is_ok() ? schedule::check(*plan) : plan.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  return std::move(plan).value();
}

// What ranks tell each other.
schedule::Program sharing_program(const MeasureRequest& request, std::int64_t floats) {
  return schedule::Program(checked_plan(request, Algorithm::kTree, floats), request.place.rank);
}

// What a step carries out in turn: the whole, or its two halves (bucket_plans.cc), but without what goes to keepers,
// who are known when every bucket's plan is.
std::vector<schedule::Program> programs_for(const MeasureRequest& request, Algorithm algorithm,
                                            std::int64_t floats) {
  const schedule::Plan plan = checked_plan(request, algorithm, floats);
  std::vector<schedule::Program> programs;
  if (request.in_equal_parts) {
    const Result<schedule::Halves> halves = schedule::halves_of(plan);
    PACELINE_ASSERT(halves.is_ok(), halves.status().message());
    programs.emplace_back(halves->sums, request.place.rank, request.encoding);
    programs.emplace_back(halves->copies, request.place.rank);
  } else {
    programs.emplace_back(plan, request.place.rank, request.encoding);
  }
  return programs;
}

class Measurement {
 public:
  Measurement(const MeasureRequest& request, mesh::Mesh& mesh, std::uint32_t& reductions)
      : request_(request), mesh_(mesh), reductions_(reductions) {}

  // One class, for about so long, or one turn of each; `at_most` is what is left of that. The first turn, which finds
  // nothing in caches and buffers, counts only where it is the last.
  Result<MeasuredChoice> measure(std::int64_t floats, double& at_most) {
    MeasuredChoice choice{floats, {}};
    Programs programs;
    for (const Algorithm algorithm : candidates(request_)) {
      if (hopeless_.contains(algorithm)) continue;
      choice.times.push_back({algorithm, 0.0});
      programs.push_back(programs_for(request_, algorithm, floats));
    }
    const schedule::Program sharing = sharing_program(request_, std::ssize(programs) * request_.place.ranks);
    const std::int64_t together = together_of(request_, floats);
    const std::span<float> zeros = request_.vector.first(static_cast<std::size_t>(together * floats));
    std::fill(zeros.begin(), zeros.end(), 0.0F);
    std::vector<std::vector<double>> turns(programs.size());  // of each candidate, after the first one
    for (int turn = 0; turn < kTurnsMax && (turn == 0 || at_most > 0.0); ++turn) {
      const std::vector<std::size_t> taking = taking_turn(turn, choice);
      PACELINE_ASSIGN_OR_RETURN(const std::vector<float> times, take_turn(taking, programs, sharing, zeros));
      for (const std::size_t c : taking) {
        const auto first = times.begin() + static_cast<std::ptrdiff_t>(c * request_.place.ranks);
        const double slowest = static_cast<double>(*std::max_element(first, first + request_.place.ranks));
        const double each = slowest / static_cast<double>(together);
        choice.times[c].seconds = turn == 0 ? each : with(each, turns[c]);
        at_most -= slowest;
      }
    }
    const double best = choice.fastest().seconds;
    for (const MeasuredChoice::Time& time : choice.times) {
      if (time.seconds > kHopeless * best) hopeless_.insert(time.algorithm);
    }
    return choice;
  }

 private:
  using Programs = std::vector<std::vector<schedule::Program>>;  // of each candidate

  // Candidates, the same on every rank. Their order changes, since each finds in caches and buffers what the one before
  // it has left there.
  static std::vector<std::size_t> taking_turn(int turn, const MeasuredChoice& choice) {
    std::vector<std::size_t> taking;
    const double at_most = kSlowdownMax * choice.fastest().seconds;
    for (std::size_t c = 0; c < choice.times.size(); ++c) {
      if (turn < kTurnsOfAll || choice.times[c].seconds <= at_most) taking.push_back(c);
    }
    if (turn % 2 == 1) std::reverse(taking.begin(), taking.end());
    return taking;
  }

  // The median, of two the lesser: the least would be the luckiest's.
  static double with(double seconds, std::vector<double>& turns) {
    turns.insert(std::upper_bound(turns.begin(), turns.end(), seconds), seconds);
    return turns[(turns.size() - 1) / 2];
  }

  // Seconds of each candidate, by rank.
  Result<std::vector<float>> take_turn(const std::vector<std::size_t>& taking, const Programs& programs,
                                       const schedule::Program& sharing, std::span<float> zeros) {
    std::vector<float> times(programs.size() * request_.place.ranks);  // this rank's
    for (const std::size_t c : taking) {
      PACELINE_RETURN_IF_ERROR(meet());
      const Ticks began = request_.now();
      for (const schedule::Program& program : programs[c]) {
        PACELINE_RETURN_IF_ERROR(reduce_together(program, zeros));
      }
      times[c * request_.place.ranks + request_.place.rank] =
          static_cast<float>(to_seconds(request_.now() - began));
    }
    PACELINE_RETURN_IF_ERROR(reduce(sharing, times));
    return times;
  }

  Status reduce(const schedule::Program& program, std::span<float> vector) {
    return mesh_.reduce(program, vector, reductions_++, request_.silence);
  }

  // Of as many buckets as `vector` has.
  Status reduce_together(const schedule::Program& program, std::span<float> vector) {
    std::vector<mesh::Mesh::Part> parts;
    const auto floats = static_cast<std::size_t>(program.floats);
    for (std::size_t at = 0; at < vector.size(); at += floats) {
      parts.push_back({program, vector.subspan(at, floats), reductions_++});
    }
    return mesh_.reduce(parts, request_.silence, [](std::size_t) {});
  }

  // Returns on all ranks at about the same time.
  Status meet() {
    float nothing = 0.0F;
    return reduce(meeting_, std::span(&nothing, 1));
  }

  const MeasureRequest& request_;
  mesh::Mesh& mesh_;
  std::uint32_t& reductions_;
  const schedule::Program meeting_ = sharing_program(request_, 1);
  std::set<Algorithm> hopeless_;  // for larger buckets, too
};

}  // namespace

std::vector<Algorithm> candidates(const MeasureRequest& request) {
  const auto& [rank, ranks, machines] = request.place;
  std::vector<Algorithm> all = {Algorithm::kRing};
  if (!request.in_equal_parts || std::has_single_bit(ranks)) all.push_back(Algorithm::kBinaryBlocks);
  if (ranks <= kFewRanks) all.push_back(Algorithm::kDirect);
  if (ranks <= kFewRanks && !request.in_equal_parts) all.push_back(Algorithm::kTree);
  if (schedule::squarest_grid(ranks).rows > 1) all.push_back(Algorithm::kTorus);
  const std::set<std::uint32_t> different(machines.begin(), machines.end());
  if (different.size() > 1 && different.size() < ranks) all.push_back(Algorithm::kHierarchical);
  return all;
}

std::vector<std::int64_t> classes_of(std::span<const std::int64_t> floats) {
  std::map<int, std::int64_t> largest;  // by power of four
  for (const std::int64_t size : floats) {
    std::int64_t& of_class = largest[class_of(size)];
    of_class = std::max(of_class, size);
  }
  std::vector<std::int64_t> classes;
  for (const auto& [power, size] : largest) classes.push_back(size);
  return classes;
}

const MeasuredChoice::Time& MeasuredChoice::fastest() const {
  return *std::min_element(times.begin(), times.end(),
                           [](const Time& a, const Time& b) { return a.seconds < b.seconds; });
}

std::string MeasuredChoice::words() const {
  std::string words = "up to " + std::to_string(floats) + " floats:";
  for (const Time& time : times) {
    char text[64];
    std::snprintf(text, sizeof text, "%s %s %.3g ms", &time == &times.front() ? "" : ",",
                  schedule::name_of(time.algorithm), time.seconds * 1e3);
    words += text;
  }
  return words + ": " + schedule::name_of(chosen());
}

Result<std::vector<MeasuredChoice>> measure_choices(const MeasureRequest& request, mesh::Mesh& mesh,
                                                    std::uint32_t& reductions) {
  const std::vector<std::int64_t> classes = classes_of(request.floats);
  double left = to_seconds(kMeasureAtMost);
  Measurement measurement(request, mesh, reductions);
  std::vector<MeasuredChoice> choices;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const double share = std::max(0.0, left) / static_cast<double>(classes.size() - i);
    double at_most = share;
    PACELINE_ASSIGN_OR_RETURN(MeasuredChoice choice, measurement.measure(classes[i], at_most));
    left -= share - at_most;
    choices.push_back(std::move(choice));
  }
  return choices;
}

Algorithm chosen_for(const std::vector<MeasuredChoice>& choices, std::int64_t floats) {
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [floats](const MeasuredChoice& choice) { return choice.floats >= floats; });
  PACELINE_ASSERT(found != choices.end(), "no choice for " + std::to_string(floats) + " floats");
  return found->chosen();
}

}  // namespace paceline
