// Surroundings: what the parties of a simulated run share. All of it outlives them.
#pragma once

#include "simulate/computation.h"
#include "simulate/events.h"
#include "simulate/group_steps.h"
#include "simulate/network.h"
#include "simulate/plan.h"
#include "simulate/pulls.h"
#include "simulate/reductions.h"
#include "simulate/training.h"

namespace paceline::simulate {

struct Surroundings {
  const Plan& plan;
  Events& events;
  Network& network;
  Pulls& pulls;
  Computation& computation;
  Training* training;      // the computation's
  Reductions* reductions;  // exchange.kind: allreduce; else nullptr
  GroupSteps* groups;      // of pipeline.stages or train.batch_norm_group; else nullptr
  Ticks& phase_clock;      // what the recorders read: a worker sets it before it calls one
};

}  // namespace paceline::simulate
