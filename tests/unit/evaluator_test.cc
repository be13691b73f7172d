// What a node's evaluator makes of what it is asked for: a metric, or why there is none; and it goes on.
#include "worker/train/evaluator.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace paceline {
namespace {

// Versions in their order, all floats of one of which are its number.
class AskedInTurn final : public Evaluations {
 public:
  explicit AskedInTurn(std::vector<EvaluationRequest> asked) : asked_(std::move(asked)) {}

  Result<EvaluationRequest> next() override {
    if (at_ == asked_.size()) return aborted("the run is over");
    return asked_[at_++];
  }
  Status fetch(const EvaluationRequest& request, std::span<float> flat) override {
    if (is_gone.contains(request.version)) return not_found("it is no longer retained");
    closed_ = closes_at == request.version ? unavailable("the servers are lost") : Status::ok();
    std::fill(flat.begin(), flat.end(), static_cast<float>(request.version.value));
    return closed_;
  }
  void report(Evaluated evaluated) override { reported.push_back(std::move(evaluated)); }
  Status closed() const override { return closed_; }

  std::set<Version> is_gone;
  Version closes_at = kNoVersion;
  std::vector<Evaluated> reported;

 private:
  const std::vector<EvaluationRequest> asked_;
  std::size_t at_ = 0;
  Status closed_ = Status::ok();
};

// The loss is the sum of the parameters; of version 7 it is none.
struct SummingTasks final : TaskFactory {
  struct Summing final : Task {
    Status load(const Step&) override { return failed_precondition("not here"); }
    Result<Metric> compute(std::span<const float>, std::span<float>, const FinalFrom&) override {
      return failed_precondition("not here");
    }
    Result<Metric> evaluate(std::span<const float> parameters) override {
      if (parameters[0] == 7.0F) return Metric{std::numeric_limits<double>::quiet_NaN(), 0, 1};
      return Metric{parameters[0] + parameters[1], 1, 1};
    }
  };
  SummingTasks() { REQUIRE(of_model.add("w", {2}).is_ok()); }

  const Layout& layout() const override { return of_model; }
  void initialize(std::span<float>) const override {}
  Result<std::unique_ptr<Task>> make_trainer(WorkerId) override { return failed_precondition("not here"); }
  Result<std::unique_ptr<Task>> make_evaluator() override {
    ++made;
    if (made <= fail) return unavailable("no memory for it");
    return std::unique_ptr<Task>(std::make_unique<Summing>());
  }

  Layout of_model;
  int made = 0;
  int fail = 0;  // so often
};

// On a thread of its own, whose priority it lowers. Returns why it ended.
std::string evaluated(TaskFactory& tasks, Evaluations& asked, const Log& log) {
  return std::async(std::launch::async, [&] { return run_evaluator(tasks, asked, log).message(); }).get();
}

TEST_CASE("what cannot be evaluated is reported with its reason, and the next version is evaluated") {
  SummingTasks tasks;
  tasks.fail = 1;
  AskedInTurn asked({{Version(2)}, {Version(3)}, {Version(4)}, {Version(7)}, {Version(8), true}});
  asked.is_gone = {Version(4)};
  std::vector<std::string> logged;
  const Log log = Log::to([&](LogLevel, const std::string& line) { logged.push_back(line); });
  CHECK(evaluated(tasks, asked, log) == "the run is over");
  REQUIRE(asked.reported.size() == 5);
  CHECK(asked.reported[0].fault == "no memory for it");
  CHECK((asked.reported[1].fault.empty() && asked.reported[1].metric.loss_sum == 6.0));
  CHECK(asked.reported[2].fault == "it is no longer retained");
  CHECK(asked.reported[3].fault == "the test loss is not finite");
  CHECK((asked.reported[4].version == Version(8) && asked.reported[4].metric.loss_sum == 16.0));
  CHECK(tasks.made == 2);
  CHECK(logged.size() == 2);
}

TEST_CASE("of a version that is being fetched as the node ends nothing is reported") {
  SummingTasks tasks;
  AskedInTurn asked({{Version(2)}, {Version(3)}, {Version(4)}});
  asked.closes_at = Version(3);
  CHECK(evaluated(tasks, asked, Log::to([](LogLevel, const std::string&) {})) == "the servers are lost");
  CHECK(asked.reported.size() == 1);
}

}  // namespace
}  // namespace paceline
