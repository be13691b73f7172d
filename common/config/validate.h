// What no single key can decide: defaults that depend on the policy, and values that contradict each other.
// Internal to common/config.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "common/config/load.h"
#include "common/config/run_config.h"
#include "common/config/value.h"
#include "common/status.h"

namespace paceline::config {

// Which keys, and elements of lists ("train.layers[3]"), were given, and where; those left at their defaults
// are absent.
class Given {
 public:
  explicit Given(std::string source) : source_(std::move(source)) {}

  void add(const std::string& key, const Place& place) { places_[key] = place; }
  bool has(const std::string& key) const { return places_.contains(key); }
  // The first of `keys` that was given, since a default is never what somebody got wrong.
  std::string first(std::initializer_list<const char*> keys) const;
  Place place_of(const std::string& key) const;
  // `path`, or the key in epochs that was given and made into it.
  std::string as_given(const std::string& path) const;

 private:
  std::string source_;
  std::map<std::string, Place> places_;
};

// Fills in the defaults of sync.apply and sync.combine that follow from the policy.
void resolve(RunConfig& config, const Given& given);

// Of deltas of local steps: where train.optimizer.lr is not given, sgd has that which averages what the workers have
// come to, 1 under combine: mean and each delta's share of it, 1 / workers, under each. After resolve() and whatever
// else may give an inner optimizer.
void resolve_outer_rate(RunConfig& config, const Given& given);

// The first contradiction, in the one-line form of every configuration error; kInvalidArgument.
Status validate(const RunConfig& config, const Given& given, LoadFor what);

}  // namespace paceline::config
