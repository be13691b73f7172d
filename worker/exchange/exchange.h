// Exchange: what a training thread needs from whatever brings contributions and parameters together. It takes
// what a round has made of the parameters, and makes parameters current. Parameter servers are one
// (worker/client/ps_client.h), an all-reduce among the nodes (worker/allreduce) is another; tests have one within
// their process (tests/unit/local_exchange.h). When a worker may go on is the Coordinator's to say (coordinator.h).
//
// Thread: every member may be called from any training thread; waits end with an error once the exchange is
// closed.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "common/instant.h"
#include "common/params/shared_floats.h"
#include "common/status.h"
#include "worker/cache/parameter_sink.h"

namespace paceline {

// What a round contributes, on its way out: its gradient. The values are shared with the exchange until every
// byte has left, and the worker is granted past it (before that it may have to be said again), or is encoded,
// and do not change.
struct Contribution {
  WorkerId worker;
  Clock clock;
  std::int64_t samples = 0;
  Version computed_version = {};  // of the parameters it was computed with
  Revision computed_revision = {};
  SharedFloats values;                // the whole flat vector
  std::int64_t own_updates = 0;       // own gradients in these parameters besides (read-my-writes)
  std::vector<Revision> slices = {};  // computed_revision of each slice of the cache; empty: of all
};

// What left of a gradient while it was computed.
struct EarlyPush {
  std::chrono::nanoseconds hidden{0};  // something of it was on its way
  std::int64_t bytes = 0;              // payload bytes handed over, sent or lent (read in place)
};

// Parameters that were asked for: see request_parameters().
using Ticket = std::uint64_t;

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Sends a gradient, or what of it has not left yet, without waiting: from its own memory, or as other bytes
  // that the exchange makes of it first. It counts now. Of one thread, one after another.
  virtual void push(Contribution gradient) = 0;

  // Before that, any number of times: elements [begin, the vector's end) of a gradient that is still computed
  // are final. What can leave of them may (nothing, here, is right, too); its push() or
  // withdraw() has to follow. Its samples are not known yet. `begin` falls.
  virtual void push_early(const Contribution& gradient, std::int64_t begin) {
    static_cast<void>(gradient), static_cast<void>(begin);
  }
  // How many floats of a gradient that is computed are worth handing over at once, so that they leave while
  // the next ones are looked at and encoded.
  virtual std::int64_t floats_at_once() const { return std::numeric_limits<std::int64_t>::max(); }
  // What has left early until now; before the push().
  virtual EarlyPush pushed_early(WorkerId worker, Ticks until) const {
    static_cast<void>(worker), static_cast<void>(until);
    return {};
  }
  // Instead of push(): the gradient is not finite, or never will be whole. Whatever has left of it is taken
  // back; nothing where nothing has.
  virtual void withdraw(const Contribution& gradient) { static_cast<void>(gradient); }

  // Instead of push(): gradient or loss is not finite, so it does not count (on_nan: skip). `values`: the gradient's,
  // which are the exchange's to write to now.
  virtual void push_not_finite(Contribution gradient, std::span<float> values) {
    static_cast<void>(values);
    withdraw(gradient);
  }

  // After either: why no gradient of that round counts, also where this one is finite, as one word of an all-reduce;
  // empty: it is as each thread has said.
  virtual std::string left_out(Clock clock) const {
    static_cast<void>(clock);
    return {};
  }

  // Asks for the parameters of version `min_version` or newer, of all shards; joins a request of another
  // thread that serves the purpose. The answer goes to the node's process cache. Does not wait.
  virtual Ticket request_parameters(Version min_version) = 0;

  // The same of one fragment alone, the `n`-th from the vector's end (exchange.fragments).
  // Where parameters come in fragments each is to be asked for so.
  virtual Ticket request_fragment(Version min_version, std::int64_t n) {
    static_cast<void>(n);
    return request_parameters(min_version);
  }

  // request_parameters() of a thread that has computed its gradient and calls await_early() next, with at most a pass
  // or two over that in between (looking for NaN, applying it locally, the push): well under a lease, since what
  // arrives may stay where it lies, and keep a server's blocks lent, until it is copied in.
  virtual Ticket request_early(Version min_version) { return request_parameters(min_version); }

  // Waits until what was asked for is in the process cache, and returns when that was. What arrives meanwhile
  // is copied in too: all of it, some of it, or nothing where it was there already. Errors: why the exchange was
  // closed.
  virtual Result<Ticks> await_parameters(Ticket ticket, ParameterSink& sink) = 0;

  // The same for parameters that only a next iteration of node-local training thread `thread` would need:
  // nullopt, at once, when what it will be told next is that there is none. What has been copied in then is not to be
  // used. As it stands: of an exchange in which what is asked for ahead exists.
  virtual Result<std::optional<Ticks>> await_early(std::uint32_t thread, Ticket ticket, ParameterSink& sink) {
    static_cast<void>(thread);
    PACELINE_ASSIGN_OR_RETURN(const Ticks installed, await_parameters(ticket, sink));
    return std::optional(installed);
  }

  // The same without waiting; nullopt while it is not there.
  virtual std::optional<Ticks> parameters_installed(Ticket ticket) = 0;
};

}  // namespace paceline
