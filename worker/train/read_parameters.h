// How a training thread comes by its parameters: the rules of common/cache put to work on its caches and its
// exchange.
#pragma once

#include <optional>

#include "common/status.h"
#include "worker/train/train_step.h"

namespace paceline {

// With a grant in hand: makes training.cache meet it, from the thread cache, the process cache or the
// servers, and settled. Ends the exchange of the last iteration, if one is running, and is in T_CACHE_PARAM,
// P_CACHE_PARAM or, where there was something to settle, APPLY_GRADS when it returns. A read that a cache
// answers sends nothing. Errors: why the exchange was closed; the thread cache's.
Status read_parameters(Training& training, const Granted& granted);

// Parameters asked for while the thread computes.
struct FetchAhead {
  std::optional<Ticket> ticket;
  Ticks since;
};
// Asks for what the next iteration is certain to require, if it exists already.
FetchAhead fetch_ahead(Training& training, const wire::Grant& grant);
// How much of it lay in the shadow of computing: beside the phases, in none of them.
void record_hidden(Training& training, const FetchAhead& ahead);

// Asks for the next iteration's parameters with the push, where they should come down meanwhile
// (cache::pull_with_push()): before what of the gradient has not left, or behind it.
void pull_ahead_of_push(Training& training, const wire::Grant& grant);
void pull_behind_push(Training& training, const wire::Grant& grant);
// Lands what was asked for with the push and does not wait for the grant, while that is on its way, or until
// it is known that no iteration follows. Errors: why the exchange was closed.
Status land_ahead(Training& training);

}  // namespace paceline
