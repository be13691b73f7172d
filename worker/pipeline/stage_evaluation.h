// A network that is cut into stages, evaluated on one node: a stage after the other takes the mini-batch forward, in
// micro-batches. Where memory is bounded it is gone before the next is made: activations of one micro-batch in one
// stage are there at a time, and what passes between two stages. Else all stay, for the next mini-batch. The metric is
// that of the network in one piece, without label smoothing: each sample goes through on its own, and a smaller
// mini-batch, as the last of a test set, has its own number of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/network/stages.h"
#include "worker/model/backend.h"

namespace paceline {

// For evaluate() of up to `samples` samples, in micro-batches of up to `rows`; gradient() fails. `keeps`: all stages
// stay. `stages` outlive it. Belongs to the thread that made it.
std::unique_ptr<NetworkBackend> evaluate_by_stages(Backend kind, const NetworkSpec& network,
                                                   const std::vector<StageSpec>& stages, std::int64_t samples,
                                                   std::int64_t rows, bool keeps);

}  // namespace paceline
