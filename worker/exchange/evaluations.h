// Evaluations: what a node's evaluator needs from whoever has versions evaluated: what is to be, the parameters, and
// somebody who takes what came out. In a run that is the authority, and the parameters come from servers or from
// the nodes' own sums (worker/session_evaluations.cc).
//
// Thread: the evaluator's; closed() any.
#pragma once

#include <span>
#include <string>

#include "common/clock.h"
#include "common/metric.h"
#include "common/status.h"

namespace paceline {

struct EvaluationRequest {
  Version version;
  bool final_model = false;  // the run ends with it
};

struct Evaluated {
  Version version;
  Metric metric = {};
  std::string fault = {};  // why there is no metric; empty when fine
};

class Evaluations {
 public:
  virtual ~Evaluations() = default;

  // Waits for the next request. Errors: why they were closed, the orderly end of the run included.
  virtual Result<EvaluationRequest> next() = 0;

  // Fetches exactly that version into `flat`, the whole flat vector, past the process cache. Errors: kNotFound it is
  // no longer retained, and more may be asked for; why they were closed.
  virtual Status fetch(const EvaluationRequest& request, std::span<float> flat) = 0;

  // Does not wait.
  virtual void report(Evaluated evaluated) = 0;

  // Why they were closed; OK while they are open.
  virtual Status closed() const = 0;
};

}  // namespace paceline
