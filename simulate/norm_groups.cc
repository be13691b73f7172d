#include "simulate/norm_groups.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/network/network.h"
#include "common/schedule/run_links.h"
#include "simulate/virtual_time.h"

namespace paceline::simulate {
namespace {

// Of a message between nodes, ahead of its floats (worker/mesh/channels.h).
constexpr double kHeadBytes = 72.0;

}  // namespace

NormGroups::NormGroups(const Plan& plan)
    : GroupSteps(plan.config.train.batch_norm_group, plan.cluster.nodes) {}

Result<NormGroups> NormGroups::begin(const Plan& plan) {
  PACELINE_ASSIGN_OR_RETURN(const NetworkSpec network, build_network(plan.config));
  NormGroups made(plan);
  double products = 0.0;
  double ahead = 0.0;
  double norms = 0.0;
  double bytes = 0.0;  // of one message of each norm
  for (const Layer& layer : network.layers) {
    if (norms == 0.0) ahead = products;
    products += static_cast<double>(layer.multiply_adds());
    if (!layer.mixes_samples()) continue;
    norms += 1.0;
    bytes += kHeadBytes + 2.0 * sizeof(float) * static_cast<double>(layer.out.channels);
  }
  if (products > 0.0) made.ahead_ = ahead / products;
  const schedule::Links links = schedule::links_of_run(plan.config.simulate);
  for (std::size_t first = 0; first < plan.cluster.nodes; first += made.size_) {
    double per_byte = 0.0;  // of its slowest link
    for (std::size_t node = first; node < first + made.size_ && !links.per_byte.empty(); ++node)
      per_byte = std::max(per_byte, links.per_byte[std::min(node, links.per_byte.size() - 1)]);
    const double sent = norms * links.per_transfer + bytes * per_byte;
    made.exchanges_.push_back(2.0 * (norms * links.latency + static_cast<double>(made.size_ - 1) * sent));
  }
  return made;
}

GroupSteps::Done NormGroups::run(std::size_t first, Clock) {
  const std::span<Member> members = std::span(members_).subspan(first, size_);
  // From the first member's begin on: a run's instants are large for what is added up here.
  const Ticks zero = *members.front().begins;
  const double before = kForwardShare * ahead_;
  const double next = (1.0 - kForwardShare) * ahead_;
  double latest = before * to_seconds(members.front().length);
  double longest = 0.0;
  for (const Member& member : members) {
    const double length = to_seconds(member.length);
    latest = std::max(latest, to_seconds(*member.begins - zero) + before * length);
    longest = std::max(longest, length);
  }
  const double last = latest + (1.0 - ahead_) * longest + exchanges_[first / size_];
  Done done{NodeId(static_cast<std::uint32_t>(first)), {}};
  for (Member& member : members) {
    const Ticks alone = after(*std::exchange(member.begins, std::nullopt), member.length);
    const double ends = last + next * to_seconds(member.length);
    done.ends.push_back(std::max(alone, after(zero, length_of(1e9 * ends))));
    member.waited = done.ends.back() - alone;
  }
  return done;
}

}  // namespace paceline::simulate
