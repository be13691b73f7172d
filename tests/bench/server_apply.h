// What it takes a shard to apply a gradient on a GPU, beside the processor, and what the copies alone would
// take: bench_server_apply, and the test that it runs.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <vector>

#include "common/status.h"
#include "server/store/shard_device.h"

namespace paceline::bench {

// For each optimizer and each number of floats a JSON line: medians of `rounds` decisions of each, in turns,
// in milliseconds. One gradient a decision, in page-locked memory; somebody reads the state before.
//   gpu_ms, gpu_ahead_ms    the decision, when nothing of the gradient was sent ahead and when all was
//   cpu_ms, cpu_ahead_ms    the same on the processor, ahead: where it is prepared (SGD alone)
//   ratio, ratio_ahead      gpu_ms / cpu_ms, gpu_ahead_ms / cpu_ahead_ms
//   up_gbps, down_gbps      one copy of so many floats from and to page-locked memory, in the same turns
//   limit_ms                the gradient's and the parameters' bytes by these, at the same time
//   limit_ahead_ms          the parameters' alone
//   of_limit, of_limit_ahead  gpu_ms / limit_ms, gpu_ahead_ms / limit_ahead_ms
// Errors: the device's.
Status server_apply(const std::shared_ptr<server::ServerDevice>& device,
                    const std::vector<std::int64_t>& floats, int rounds, std::ostream& out);

}  // namespace paceline::bench
