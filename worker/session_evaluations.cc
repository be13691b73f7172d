// What a node's evaluator is asked for, and where it has the parameters from.
#include <algorithm>
#include <utility>
#include <vector>

#include "worker/exchange/evaluations.h"
#include "worker/session.h"
#include "worker/train/evaluator.h"

namespace paceline {

// By the authority, through the client.
class Session::AskedFor final : public Evaluations {
 public:
  explicit AskedFor(Session& session) : session_(session) {}

  Result<EvaluationRequest> next() override {
    PACELINE_ASSIGN_OR_RETURN(const wire::Evaluate asked, session_.client_.next_evaluation());
    return EvaluationRequest{asked.version, asked.final_model};
  }
  Status fetch(const EvaluationRequest& request, std::span<float> flat) override {
    return session_.reduces_ != nullptr ? session_.fetch_reduced(request, flat)
                                        : session_.client_.fetch_exact(request.version, flat);
  }
  void report(Evaluated evaluated) override {
    session_.client_.report_evaluation({evaluated.version, evaluated.metric, std::move(evaluated.fault)});
  }
  Status closed() const override { return session_.client_.closed(); }

 private:
  Session& session_;
};

void Session::evaluate() {
  AskedFor asked(*this);
  client_.close(run_evaluator(parts_.tasks, asked, parts_.log));  // usually it is why the evaluator ended
}

// Of stages the final version is in the server. Any other than node 0 may be asked where node 0 is lost.
Status Session::fetch_reduced(const EvaluationRequest& request, std::span<float> flat) {
  const std::uint32_t stages = config_.pipeline.stages;
  if (stages > 1 && request.final_model) return client_.fetch_exact(request.version, flat);
  if (stages > 1 && parts_.node != NodeId(0)) {
    return not_found("version " + to_string(request.version) +
                     ": node 0 alone is given the parameters of other stages");
  }
  for (std::uint32_t node = 0; node < stages; ++node) {
    const Range own = parts_.tasks.trained_by(NodeId(node));
    const auto into = flat.subspan(static_cast<std::size_t>(own.begin), static_cast<std::size_t>(own.size()));
    if (NodeId(node) == parts_.node || stages == 1) {
      PACELINE_RETURN_IF_ERROR(reduces_->fetch_exact(request.version, into));
      continue;
    }
    PACELINE_ASSIGN_OR_RETURN(const std::vector<float> floats,
                              channels_->receive_parameters(NodeId(node), request.version));
    if (floats.size() != into.size()) {
      return invalid_argument("node " + std::to_string(node) + " has sent " + std::to_string(floats.size()) +
                              " parameters, expected " + std::to_string(into.size()));
    }
    std::copy(floats.begin(), floats.end(), into.begin());
  }
  return Status::ok();
}

}  // namespace paceline
