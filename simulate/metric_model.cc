#include "simulate/metric_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/report/csv.h"

namespace paceline::simulate {
namespace {

constexpr const char* kCurveHeader = "samples,accuracy,loss";

struct Point {
  double samples = 0.0;
  double accuracy = 0.0;
  double loss = 0.0;
};

// A curve, and the noise of a mini-batch around it.
class NoisyModel : public MetricModel {
 public:
  explicit NoisyModel(const RunConfig& config) : seed_(config.run.seed), metric_(config.simulate.metric) {}

  Metric measure(Rank worker, Clock clock, std::int64_t samples, std::int64_t batch_samples) const final {
    const Point point = at(static_cast<double>(samples));
    const auto batch = static_cast<double>(batch_samples);
    if (metric_.noise == MetricNoise::kNone) {
      return {point.loss * batch, std::llround(point.accuracy * batch), batch_samples};
    }
    CounterRandom random(seed_, Stream::kSimulatedMetric, worker.value,
                         static_cast<std::uint64_t>(clock.value));
    const std::int64_t correct = binomial_draw(batch_samples, point.accuracy, random);
    const double loss = point.loss * batch + metric_.loss_deviation * std::sqrt(batch) * random.next_normal();
    return {std::max(loss, 0.0), correct, batch_samples};
  }

 private:
  virtual Point at(double samples) const = 0;

  std::uint64_t seed_;

 protected:
  SimulatedMetric metric_;
};

class ParametricCurve final : public NoisyModel {
 public:
  using NoisyModel::NoisyModel;

 private:
  Point at(double samples) const override {
    const double gone = samples / (samples + static_cast<double>(metric_.half_samples));
    return {samples, metric_.initial_accuracy + (*metric_.final_accuracy - metric_.initial_accuracy) * gone,
            metric_.initial_loss + (metric_.final_loss - metric_.initial_loss) * gone};
  }
};

class RecordedCurve final : public NoisyModel {
 public:
  RecordedCurve(const RunConfig& config, std::vector<Point> points)
      : NoisyModel(config), points_(std::move(points)) {}

 private:
  Point at(double samples) const override {
    const auto next = std::upper_bound(points_.begin(), points_.end(), samples,
                                       [](double n, const Point& point) { return n < point.samples; });
    if (next == points_.begin()) return points_.front();
    if (next == points_.end()) return points_.back();
    const Point& before = *(next - 1);
    const double gone = (samples - before.samples) / (next->samples - before.samples);
    return {samples, before.accuracy + (next->accuracy - before.accuracy) * gone,
            before.loss + (next->loss - before.loss) * gone};
  }

  std::vector<Point> points_;  // samples ascending
};

Result<std::vector<Point>> read_points(const std::string& path) {
  PACELINE_ASSIGN_OR_RETURN(const csv::Table table, csv::Table::read(path, kCurveHeader));
  if (table.rows() == 0) return invalid_argument(path + ": no rows, expected at least one");
  std::vector<Point> points(table.rows());
  for (std::size_t i = 0; i < points.size(); ++i) {
    PACELINE_ASSIGN_OR_RETURN(points[i].samples, table.number(i, 0));
    PACELINE_ASSIGN_OR_RETURN(points[i].accuracy, table.number(i, 1));
    PACELINE_ASSIGN_OR_RETURN(points[i].loss, table.number(i, 2));
    const double before = i == 0 ? -1.0 : points[i - 1].samples;
    if (!(points[i].samples > before && std::isfinite(points[i].samples))) {
      return table.error(i, 0, "a number above that of the row before");
    }
    if (!(points[i].accuracy >= 0.0 && points[i].accuracy <= 1.0)) return table.error(i, 1, "0 to 1");
    if (!(points[i].loss >= 0.0 && std::isfinite(points[i].loss))) {
      return table.error(i, 2, "a number of at least 0");
    }
  }
  return points;
}

// Inversion needs (1 - p)^n above 0: so many at a time.
constexpr std::int64_t kTrialsAtOnce = 256;

std::int64_t few_trials(std::int64_t trials, double p, CounterRandom& random) {
  const double odds = p / (1.0 - p);
  double probability = std::pow(1.0 - p, static_cast<double>(trials));
  double u = random.next_double();
  std::int64_t successes = 0;
  while (u >= probability && successes < trials) {
    u -= probability;
    probability *= odds * static_cast<double>(trials - successes) / static_cast<double>(successes + 1);
    ++successes;
  }
  return successes;
}

}  // namespace

std::int64_t binomial_draw(std::int64_t trials, double p, CounterRandom& random) {
  if (p > 0.5) return trials - binomial_draw(trials, 1.0 - p, random);
  if (p <= 0.0) return 0;
  std::int64_t successes = 0;
  for (std::int64_t left = trials; left > 0; left -= kTrialsAtOnce) {
    successes += few_trials(std::min(left, kTrialsAtOnce), p, random);
  }
  return successes;
}

Result<std::unique_ptr<MetricModel>> make_metric_model(const RunConfig& config) {
  const SimulatedMetric& metric = config.simulate.metric;
  if (metric.final_accuracy) return std::unique_ptr<MetricModel>(std::make_unique<ParametricCurve>(config));
  if (metric.curve.empty()) return std::unique_ptr<MetricModel>();
  PACELINE_ASSIGN_OR_RETURN(std::vector<Point> points, read_points(metric.curve));
  return std::unique_ptr<MetricModel>(std::make_unique<RecordedCurve>(config, std::move(points)));
}

}  // namespace paceline::simulate
