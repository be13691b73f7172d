// The evaluator: a node's thread that evaluates the exact versions the authority asks for, in buffers of its
// own and past the process cache, so that no clock, cache or phase of the training threads notices.
#pragma once

#include <functional>
#include <span>

#include "common/log/log.h"
#include "common/status.h"
#include "common/task/task.h"
#include "worker/client/ps_client.h"

namespace paceline {

// Fetches exactly the version that is asked for. Errors: as PsClient::fetch_exact().
using FetchExact = std::function<Status(const wire::Evaluate& request, std::span<float> flat)>;

// Serves evaluations until the client is closed; runs on the calling thread, at low priority: what the
// training threads leave. A task that fails, or a version that is no longer there, is reported to the
// authority, which goes on without that evaluation. Returns why the client was closed.
Status run_evaluator(TaskFactory& tasks, PsClient& client, const FetchExact& fetch, const Log& log);

}  // namespace paceline
