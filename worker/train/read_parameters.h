// How a training thread comes by its parameters: the rules of common/cache put to work on its caches and its
// exchange.
#pragma once

#include <optional>

#include "common/status.h"
#include "worker/train/train_step.h"

namespace paceline {

// With a grant in hand: makes training.cache meet it, from the thread cache, the process cache or the
// servers. Ends the exchange of the last iteration, if one is running, and is in T_CACHE_PARAM or
// P_CACHE_PARAM when it returns. A read that a cache answers sends nothing. Errors: why the exchange was
// closed.
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

// Asks for the next iteration's parameters right behind the push, where they should come down with the grant.
void pull_behind_push(Training& training, const wire::Grant& grant);

}  // namespace paceline
