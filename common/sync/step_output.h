// StepOutput: the time of the step that an Engine takes, and where the actions go that follow from it.
#pragma once

#include <utility>
#include <vector>

#include "common/instant.h"
#include "common/sync/actions.h"

namespace paceline::sync {

struct StepOutput {
  Ticks now;
  std::vector<Action>* actions = nullptr;  // between two steps: none

  void emit(Action action) { actions->push_back(std::move(action)); }
};

}  // namespace paceline::sync
