#include "worker/allreduce/measured_choice.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <set>

#include "common/assert.h"
#include "common/schedule/check.h"

namespace paceline {
namespace {

using schedule::Algorithm;

constexpr int kTurnsMax = 8;

std::vector<Algorithm> candidates(std::uint32_t ranks, const std::vector<std::uint32_t>& machines) {
  std::vector<Algorithm> all = {Algorithm::kRing, Algorithm::kBinaryBlocks, Algorithm::kDirect,
                                Algorithm::kTree};
  if (schedule::squarest_grid(ranks).rows > 1) all.push_back(Algorithm::kTorus);
  const std::set<std::uint32_t> different(machines.begin(), machines.end());
  if (different.size() > 1 && different.size() < ranks) all.push_back(Algorithm::kHierarchical);
  return all;
}

// A plan that its checker refuses would be our own bug, and is not run.
schedule::Program program_for(const MeasureRequest& request, Algorithm algorithm, std::int64_t floats) {
  schedule::PlanRequest wanted{algorithm, request.ranks, floats, {}};
  wanted.machines = request.machines;
  const Result<schedule::Plan> plan = schedule::make_plan(wanted);
  const Status checked = plan.is_ok() ? schedule::check(*plan) : plan.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  return schedule::Program(*plan, request.rank, request.encoding);
}

class Measurement {
 public:
  Measurement(const MeasureRequest& request, mesh::Mesh& mesh, std::uint32_t& reductions)
      : request_(request), mesh_(mesh), reductions_(reductions) {}

  // One class, for at most so long beyond the first turn.
  Result<MeasuredChoice> measure(std::int64_t floats, double at_most) {
    MeasuredChoice choice{floats, {}};
    std::vector<schedule::Program> programs;
    for (const Algorithm algorithm : candidates(request_.ranks, request_.machines)) {
      choice.times.push_back({algorithm, 0.0});
      programs.push_back(program_for(request_, algorithm, floats));
    }
    MeasureRequest exact = request_;
    exact.encoding = Encoding::kFp32;
    const schedule::Program summing = program_for(exact, Algorithm::kTree, std::ssize(programs));
    std::vector<float> zeros(static_cast<std::size_t>(floats));
    double elapsed = 0.0;
    for (int turn = 0; turn < kTurnsMax && (turn < 1 || elapsed < at_most); ++turn) {
      std::vector<float> times;
      for (const schedule::Program& program : programs) {
        const Ticks began = request_.now();
        PACELINE_RETURN_IF_ERROR(mesh_.reduce(program, zeros, reductions_++, request_.silence));
        times.push_back(static_cast<float>(to_seconds(request_.now() - began)));
      }
      PACELINE_RETURN_IF_ERROR(mesh_.reduce(summing, times, reductions_++, request_.silence));
      for (std::size_t c = 0; c < times.size(); ++c) {
        const double mean = static_cast<double>(times[c]) / request_.ranks;
        // The first turn wakes what sleeps; it counts where there is no other.
        double& least = choice.times[c].seconds;
        least = turn <= 1 ? mean : std::min(least, mean);
        elapsed += mean;
      }
    }
    return choice;
  }

 private:
  const MeasureRequest& request_;
  mesh::Mesh& mesh_;
  std::uint32_t& reductions_;
};

}  // namespace

Algorithm MeasuredChoice::chosen() const {
  return std::min_element(times.begin(), times.end(),
                          [](const Time& a, const Time& b) { return a.seconds < b.seconds; })
      ->algorithm;
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
  std::map<int, std::int64_t> classes;  // by power of four: the largest
  for (const std::int64_t floats : request.floats) {
    const int power = std::bit_width(static_cast<std::uint64_t>(floats)) / 2;
    std::int64_t& largest = classes[power];
    largest = std::max(largest, floats);
  }
  const double at_most =
      to_seconds(kMeasureAtMost) / static_cast<double>(std::max<std::size_t>(1, classes.size()));
  Measurement measurement(request, mesh, reductions);
  std::vector<MeasuredChoice> choices;
  for (const auto& [power, floats] : classes) {
    PACELINE_ASSIGN_OR_RETURN(MeasuredChoice choice, measurement.measure(floats, at_most));
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
