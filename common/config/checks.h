// What one key can only mean together with others: each of these refuses, at the first of the keys that was
// given, what contradicts itself. validate() (validate.h) asks them in turn. Internal to common/config.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/document.h"
#include "common/config/run_config.h"
#include "common/config/validate.h"

namespace paceline {
struct NetworkSpec;
}

namespace paceline::config {

// Reports a contradiction at the first of the keys that was given, as it was: maybe in epochs.
class Validator {
 public:
  explicit Validator(const Given& given) : given_(given) {}

  // Without effect after the first contradiction.
  void refuse_if(bool contradiction, std::initializer_list<const char*> keys, const std::string& what,
                 const std::string& got, const std::string& expected) {
    if (!contradiction || !verdict_.is_ok()) return;
    const std::string key = given_.as_given(given_.first(keys));
    verdict_ = invalid_argument(format_error(given_.place_of(key), key, what, got, expected));
  }

  const Given& given() const { return given_; }
  const Status& verdict() const { return verdict_; }

 private:
  const Given& given_;
  Status verdict_;
};

// What is said of nodes is one value for all, or one for each: `count` of `what` ("factor") at `key`.
void check_one_or_each(Validator& validator, const RunConfig& c, const char* key, std::size_t count,
                       const std::string& what);

// sync:, and what goes with a policy.
void check_sync(Validator& validator, const RunConfig& c);

// Whether an exchange can be hidden: a worker may be granted an iteration while its last gradient is on its way, and
// never computes with parameters of any age.
bool grants_ahead(const SyncSection& sync);

// exchange:, and what goes with an all-reduce.
void check_exchange(Validator& validator, const RunConfig& c);

// pipeline:, and what goes with stages.
void check_pipeline(Validator& validator, const RunConfig& c);
// What goes with connections between nodes, which `by` asks for: "pipeline.stages".
void check_connected(Validator& validator, const RunConfig& c, const char* by);
// train.batch_norm_group.
void check_norm_group(Validator& validator, const RunConfig& c);

// security:, and addresses that other machines reach.
void check_security(Validator& validator, const RunConfig& c);

// simulate:, and virtual time.
void check_simulation(Validator& validator, const RunConfig& c);

// Keys that are given where nobody reads them.
void check_readers(Validator& validator, const RunConfig& c);
// Whether `key` is one that only some of the kinds beside it read: null means not given.
bool has_readers(std::string_view key);

// Whether progress moves a threshold in this run.
bool follows_progress(const SyncSection& sync);

// The key by which sizes follow speed, where they do.
const char* balance_key(const TrainSection& train);

// The key by which not all workers take part in every step.
inline const char* even_key(const TrainSection& train) {
  return train.share == Share::kEven ? "train.total_iterations" : "train.share";
}

// ---- large mini-batches (large_batches.cc)

// One step for a clock, and everybody computes with the version before it: nothing is ever missed.
bool in_lockstep(const RunConfig& c);
// Scale and warm-up of a schedule, LARS and LAMB, of the optimizer at `at` ("train.optimizer").
void check_large_batches(Validator& validator, const RunConfig& c, const OptimizerSection& optimizer,
                         const std::string& at);
// train.accumulate, and of a network that can be built.
void check_accumulation(Validator& validator, const RunConfig& c);
void check_parts(Validator& validator, const TrainSection& train, const NetworkSpec& network);
// Gives LARS and LAMB their papers' forms, where nothing else is said.
void resolve_large_batches(RunConfig& config, const Given& given);
// Finds what rates are multiplied by, once batch_size is known.
void resolve_scale(RunConfig& config);
// What is accepted and may not be meant: a scale by the default mini-batch, a step after the end. A line each.
std::vector<std::string> rate_warnings(const RunConfig& config, const Given& given);

// ---- epochs (epochs.cc)

// Puts what epochs come to into the keys in versions and iterations; where that is not known, and a file says those,
// too, the epochs are emptied. `notes` gets a line for each value. Errors: kInvalidArgument both are given and differ,
// an epoch's samples or a version's are not known, or too many come out, or none.
Status resolve_epochs(RunConfig& config, Given& given, std::vector<std::string>& notes);

}  // namespace paceline::config
