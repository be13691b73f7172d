// A node's buckets: what it sums of its threads' gradients over two nodes, and which spans of them a trace has.
#include "worker/allreduce/bucket_sums.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "common/ticks.h"
#include "tests/unit/mesh_ranks.h"

namespace paceline::mesh {
namespace {

// Six buckets: four together, then two.
TEST_CASE("buckets_are_summed_some_at_a_time_and_their_spans_say_when_they_were_begun") {
  constexpr std::int64_t kTensors = 6, kOf = 1000;
  RunConfig config;
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.algorithm = schedule::Algorithm::kRing;
  config.exchange.bucket_bytes = kOf * 4;
  config.cluster.nodes = 2;
  config.cluster.threads_per_node = 2;
  Layout layout;
  for (std::int64_t t = 0; t < kTensors; ++t) REQUIRE(layout.add("t" + std::to_string(t), {kOf}));
  std::vector<BucketSpan> spans[2];
  std::vector<float> means[2];
  Ranks ranks(2);
  std::vector<Status> ended(2);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      FormationMesh mesh(config, NodeId(rank), layout, steady_now);
      ended[rank] = mesh.join(*ranks.listeners[rank], ranks.place(rank));
      if (!ended[rank].is_ok()) return;
      mesh.plan(/*keeps=*/false);
      const auto gradient = [&](std::uint32_t thread) {
        return SharedFloats(
            std::make_shared<const std::vector<float>>(whole_numbers(2 * rank + thread, layout.size())));
      };
      const std::vector<SharedFloats> own = {gradient(0), gradient(1)};
      BucketSums sums(mesh, layout, /*is_sharded=*/false, steady_now,
                      [&](const BucketSpan& span) { spans[rank].push_back(span); });
      for (std::size_t first = 0; first < kTensors && ended[rank].is_ok(); first += BucketSums::kInFlight) {
        const std::size_t end = std::min<std::size_t>(first + BucketSums::kInFlight, kTensors);
        const BucketSums::Summed summed =
            sums.sum(first, end, Clock(3), own, SampleWeights(2, 8), FormationMesh::With::kNothing);
        ended[rank] = summed.not_finite.empty() ? summed.reduced : internal_error(summed.not_finite);
      }
      means[rank].assign(mesh.sum().begin(), mesh.sum().end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<float> mean = whole_numbers(0, layout.size());
  for (std::uint32_t thread = 1; thread < 4; ++thread) {
    const std::vector<float> other = whole_numbers(thread, layout.size());
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += other[i];
  }
  for (float& value : mean) value /= 4;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    CHECK(ended[rank].message() == "");
    CHECK(means[rank] == mean);
    REQUIRE(spans[rank].size() == kTensors);
    for (std::size_t i = 0; i < spans[rank].size(); ++i) {
      const BucketSpan& span = spans[rank][i];
      const bool is_first = i % BucketSums::kInFlight == 0;
      CHECK((span.bucket == static_cast<std::int64_t>(i) && span.clock == Clock(3) && !span.copies));
      if (is_first) CHECK(span.ahead.count() == 0);
      if (i == 0) continue;
      const BucketSpan& before = spans[rank][i - 1];
      if (is_first) CHECK(span.begin >= before.begin + before.length);
      if (!is_first) CHECK((span.begin == before.begin + before.length && span.began() == before.began()));
    }
  }
}

}  // namespace
}  // namespace paceline::mesh
