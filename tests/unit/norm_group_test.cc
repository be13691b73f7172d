// Batch norm over groups: members, each with a part of the mini-batch, against one back end with all of it.
#include "worker/model/norm_group.h"

#include "tests/unit/norm_group_fixture.h"

namespace paceline {
namespace {

TEST_CASE("statistics_of_parts_are_those_of_the_whole") {
  // {1, 3} and {5}: mean 3, squares about it 8. Two places a sample would be twice as many values.
  const std::vector<NormPart> parts = {{2, {2.0F}, {2.0F}}, {1, {5.0F}, {0.0F}}};
  const NormStatistics all = combined(parts, 1);
  CHECK(all.values == 3);
  CHECK(all.mean[0] == Approx(3.0));
  CHECK(all.variance[0] == Approx(8.0 / 3.0));
  CHECK(combined(parts, 2).values == 6);
  // (2 x 3 + 1 x 6) / (samples x 3 values), (2 x 0.5 + 1 x 2) / the same.
  const std::vector<NormPart> sums = {{2, {3.0F}, {0.5F}}, {1, {6.0F}, {2.0F}}};
  const NormCorrection of_first = correction_of(sums, 2, 1);
  CHECK(of_first.first[0] == Approx(12.0 / 6.0));
  CHECK(of_first.second[0] == Approx(3.0 / 6.0));
  CHECK(correction_of(sums, 1, 1).first[0] == Approx(12.0 / 3.0));
}

OfGroup computed_in_parts(const NetworkSpec& network, Backend kind, const std::vector<float>& parameters,
                          const RandomBatch& batch, const std::vector<std::int64_t>& sizes, Members are,
                          Precision precision = Precision::kFp32) {
  return computed_in_parts(network, batch, sizes, are,
                           [&](std::int64_t samples, NormGroup& group) -> MemberStep {
                             std::shared_ptr<NetworkBackend> backend =
                                 make_backend(kind, network, samples, 5, &group, precision).value();
                             return [&parameters, backend](const Batch& part, std::span<float> gradient) {
                               return backend->gradient(parameters, part, gradient, whole_at_the_end);
                             };
                           });
}

TEST_CASE("parts_of_a_group_have_the_gradient_of_one_worker_with_the_whole_mini_batch") {
  const auto sizes = GENERATE(std::vector<std::int64_t>{4, 4}, std::vector<std::int64_t>{5, 2, 3},
                              std::vector<std::int64_t>{2, 2, 2, 2});
  const auto [kind, are] = GENERATE(table<Backend, Members>({{Backend::kReference, Members::kNodes},
                                                             {Backend::kOnednn, Members::kNodes},
                                                             {Backend::kOnednn, Members::kThreads}}));
  const std::int64_t samples = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  auto networks = normalised_networks(6, 4);
  LayerConfig caffes = batch_norm();
  caffes.affine = false;
  caffes.debias = true;
  networks.push_back({conv_without_bias(6, 3), caffes, relu(), dense(10)});
  for (const auto& layers : networks) {
    const NetworkSpec network = network_of(layers, {3, 8, 8}, 10);
    const RandomBatch batch(network, samples, 3);
    const std::vector<float> parameters = random_parameters(network, 3);
    INFO(layers.size() << " layers, " << sizes.size() << " members");
    check_parts(computed_in_parts(network, kind, parameters, batch, sizes, are), network, batch, parameters,
                samples, 1e-5);
  }
}

// Only the order of float sums differs, and what a bfloat16 is rounded to after it.
TEST_CASE("parts_of_a_group_in_bfloat16_are_near_one_worker_in_bfloat16") {
  const Status status = check_precision(Backend::kOnednn, Precision::kBf16);
  if (!status.is_ok()) {
    WARN("not tested: " << status.message());
    return;
  }
  for (const auto& layers : normalised_networks(16, 8)) {
    const NetworkSpec network = network_of(layers, {3, 8, 8}, 10);
    const RandomBatch batch(network, 8, 3);
    const std::vector<float> parameters = random_parameters(network, 3);
    std::vector<float> whole(parameters.size());
    const auto expected = make_backend(Backend::kOnednn, network, 8, 5, nullptr, Precision::kBf16)
                              .value()
                              ->gradient(parameters, batch.all(), whole, whole_at_the_end);
    const OfGroup got = computed_in_parts(network, Backend::kOnednn, parameters, batch, {4, 4},
                                          Members::kThreads, Precision::kBf16);
    CHECK(got.loss_sum == Approx(expected->loss_sum).epsilon(0.01));
    for (const Tensor& tensor : network.layout.tensors()) {
      INFO(layers.size() << " layers, " << tensor.name);
      CHECK(relative_l2(got.gradient, whole, tensor.offset, tensor.size()) < 0.05);
    }
  }
}

TEST_CASE("who_is_at_another_layer_or_clock_ends_the_step_of_the_others") {
  Switchboard board;
  PeerNormGroup group(NodeId(0), 2);
  group.meet(std::make_shared<Switchboard::Node>(board, NodeId(0)));
  group.begin(Clock(7));
  PeerMessage other{6, 4, 3, 0, 0.0, 0, std::vector<float>{1.0F, 2.0F}};
  REQUIRE(Switchboard::Node(board, NodeId(1)).send(NodeId(0), other).is_ok());
  const NormPart own{4, {1.0F}, {2.0F}};
  CHECK(group.exchange(3, NormPass::kForward, own).size() == 1);
  CHECK(group.status().message() ==
        "train.batch_norm_group: node 1 is at layer 3 of clock 6, 2 numbers, expected layer 3 of clock 7, 2");
  CHECK(group.exchange(3, NormPass::kBackward, own).size() == 1);  // and does not wait again
}

TEST_CASE("who_comes_no_more_to_a_meeting_is_not_waited_for") {
  NormMeeting meeting(2);
  std::vector<NormPart> alone;
  std::thread waits([&] { alone = meeting.member(0).exchange(3, NormPass::kForward, {4, {1.0F}, {2.0F}}); });
  meeting.end(invalid_argument("member 1 has no mini-batch"));
  waits.join();
  CHECK(alone.size() == 1);
  CHECK(meeting.member(1).exchange(3, NormPass::kForward, {4, {1.0F}, {2.0F}}).size() == 1);
  CHECK(meeting.member(0).status().message() == "member 1 has no mini-batch");
}

}  // namespace
}  // namespace paceline
