// Members of a norm group (worker/model/norm_group.h) that are threads, each with a part of one mini-batch. They send
// each other what nodes do, or meet.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/unit/model_fixture.h"
#include "tests/unit/switchboard.h"
#include "worker/model/norm_meeting.h"
#include "worker/model/peer_norm_group.h"
#include "worker/model/reference.h"

namespace paceline {

struct OfGroup {
  std::vector<float> gradient;  // the parts', weighed by samples
  double loss_sum = 0.0;
};

enum class Members { kNodes, kThreads };

// A member's step, and what makes it, called by its thread.
using MemberStep = std::function<Result<Metric>(const Batch& part, std::span<float> gradient)>;
using MakeMember = std::function<MemberStep(std::int64_t samples, NormGroup& group)>;

// Of the last of some steps with the same mini-batch.
inline OfGroup computed_in_parts(const NetworkSpec& network, const RandomBatch& batch,
                                 const std::vector<std::int64_t>& sizes, Members are, const MakeMember& make,
                                 std::int64_t steps = 2) {
  Switchboard board;
  NormMeeting meeting(static_cast<std::uint32_t>(sizes.size()));
  const auto floats = static_cast<std::size_t>(network.layout.size());
  std::vector<std::vector<float>> gradients(sizes.size(), std::vector<float>(floats));
  std::vector<Result<Metric>> metrics(sizes.size(), Result<Metric>(Metric{}));
  std::vector<std::thread> members;
  for (std::uint32_t member = 0; member < sizes.size(); ++member) {
    members.emplace_back([&, member] {
      PeerNormGroup group(NodeId(member), static_cast<std::uint32_t>(sizes.size()));
      group.meet(std::make_shared<Switchboard::Node>(board, NodeId(member)));
      const std::int64_t first = std::accumulate(sizes.begin(), sizes.begin() + member, std::int64_t{0});
      NormGroup& meets = are == Members::kNodes ? static_cast<NormGroup&>(group) : meeting.member(member);
      const MemberStep step = make(sizes[member], meets);
      for (std::int64_t clock = 0; clock < steps; ++clock) {
        group.begin(Clock(clock));
        metrics[member] = step(batch.slice(first, sizes[member]), gradients[member]);
      }
    });
  }
  for (std::thread& member : members) member.join();
  const auto all = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
  std::vector<double> sum(floats);
  OfGroup of;
  for (std::size_t member = 0; member < sizes.size(); ++member) {
    REQUIRE(metrics[member].status().message() == "");
    of.loss_sum += metrics[member]->loss_sum;
    for (std::size_t i = 0; i < floats; ++i) {
      sum[i] += static_cast<double>(sizes[member]) / all * gradients[member][i];
    }
  }
  of.gradient.assign(sum.begin(), sum.end());
  return of;
}

// That it is within `tolerance` of that of the reference with the whole mini-batch and such activations, tensor by
// tensor.
inline void check_parts(const OfGroup& got, const NetworkSpec& network, const RandomBatch& batch,
                        const std::vector<float>& parameters, std::int64_t samples, double tolerance,
                        Activations activations = Activations::kDouble) {
  REQUIRE(network.mixes_samples());
  std::vector<float> whole(parameters.size());
  const auto reference = std::move(make_reference_backend(network, samples, 5, activations)).value();
  const auto expected = reference->gradient(parameters, batch.all(), whole, whole_at_the_end);
  CHECK(got.loss_sum == Approx(expected->loss_sum).epsilon(tolerance));
  for (const Tensor& tensor : network.layout.tensors()) {
    INFO(tensor.name);
    CHECK(relative_l2(got.gradient, whole, tensor.offset, tensor.size()) < tolerance);
  }
}

}  // namespace paceline
