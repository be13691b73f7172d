#include "worker/allreduce/bucket_sums.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "common/assert.h"
#include "common/encode/encode.h"
#include "common/params/non_finite.h"
#include "common/params/vector_ops.h"
#include "common/schedule/reduction_times.h"

namespace paceline {
namespace {

std::span<float> bucket_part(std::span<float> all, Range range) {
  return all.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
}

// As whoever sends it on rounds it, where every node steps everything.
void round_as(Encoding encoding, std::span<float> floats) {
  constexpr std::size_t kAtOnce = 1024;
  alignas(float) std::array<std::byte, kAtOnce * sizeof(float)> bytes;
  const Encoder encoder{encoding};
  while (!floats.empty()) {
    const std::span<float> some = floats.first(std::min(kAtOnce, floats.size()));
    const std::span<std::byte> coded = std::span(bytes).first(encoder.bytes_of(std::ssize(some)));
    encoder.encode(some, coded);
    const Status decoded = decode(encoding, coded, some);
    PACELINE_ASSERT(decoded.is_ok(), decoded.message());
    floats = floats.subspan(some.size());
  }
}

}  // namespace

BucketSums::BucketSums(FormationMesh& mesh, const Layout& layout, bool is_sharded, Ticks (*now)(),
                       std::function<void(const BucketSpan&)> on_bucket)
    : mesh_(mesh), layout_(layout), is_sharded_(is_sharded), now_(now), on_bucket_(std::move(on_bucket)) {}

// Every gradient is finite, but their sum need not be: then no rank takes the step.
BucketSums::Summed BucketSums::sum(std::size_t first, std::size_t end, Clock clock,
                                   const std::vector<SharedFloats>& own, const SampleWeights& weights,
                                   FormationMesh::With with) {
  std::vector<float> of_threads;
  for (std::size_t t = 0; t < own.size(); ++t) {
    of_threads.push_back(static_cast<float>(static_cast<double>(mesh_.weight()) * weights.of(t)));
  }
  std::vector<FormationMesh::Part> parts;
  for (std::size_t number = first; number < end; ++number) {
    const auto& [range, programs] = mesh_.buckets()[number];
    // In the order of threads, as servers sum.
    const auto make = [&own, &of_threads, begin = static_cast<std::size_t>(range.begin)](
                          std::int64_t at, std::span<float> out) {
      const auto of_thread = [&](std::size_t t) {
        return own[t].floats.subspan(begin + static_cast<std::size_t>(at), out.size());
      };
      begin_sum(out, of_thread(0), of_threads[0]);
      for (std::size_t t = 1; t < own.size(); ++t) add_weighted(out, of_thread(t), of_threads[t]);
    };
    parts.push_back({programs->sums, range, {&programs->first, make}});
  }
  std::size_t first_not_finite = end;
  Summed all;
  all.reduced = reduce(parts, first, clock, /*copies=*/false, with, [&](std::size_t number) {
    std::string not_finite = find_not_finite(number);
    if (!not_finite.empty() && number < first_not_finite) {
      first_not_finite = number;
      all.not_finite = std::move(not_finite);
    }
    if (!is_sharded_) make_mean(mesh_.buckets()[number].range);
  });
  return all;
}

// Says what of a sum is not finite, of this rank's parts of it, and ends with what others will have of them.
std::string BucketSums::find_not_finite(std::size_t number) const {
  const auto& [range, programs] = mesh_.buckets()[number];
  const std::span<float> summed = bucket_part(mesh_.sum(), range);
  const std::vector<Range> all = {{0, range.size()}};
  const bool rounds = is_sharded_ && mesh_.ranks() > 1 && programs->sums.encoding != Encoding::kFp32;
  for (const Range& here : is_sharded_ ? programs->own : all) {
    const std::span<float> part = bucket_part(summed, here);
    if (rounds) round_as(programs->sums.encoding, part);
    const auto at = first_non_finite(part);
    if (!at) continue;
    return "the sum of all gradients is not finite: " +
           describe_non_finite(part[static_cast<std::size_t>(*at)], range.begin + here.begin + *at, layout_);
  }
  return std::string();
}

void BucketSums::make_mean(Range part) const {
  if (mesh_.weight() == 1.0F && mesh_.workers() > 1) {
    scale(bucket_part(mesh_.sum(), part), 1.0F / static_cast<float>(mesh_.workers()));
  }
}

void BucketSums::weigh(Range part, std::int64_t samples, std::int64_t usual) const {
  const std::int64_t expected = usual * mesh_.workers();
  if (samples == expected) return;
  scale(bucket_part(mesh_.sum(), part),
        static_cast<float>(static_cast<double>(expected) / static_cast<double>(samples)));
}

Status BucketSums::share_not_finite(std::string& not_finite) {
  mesh_.counts()[0] = not_finite.empty() ? 0.0F : 1.0F;
  PACELINE_RETURN_IF_ERROR(mesh_.sum_counts());
  if (not_finite.empty() && mesh_.counts()[0] > 0.0F) {
    not_finite = "the sum of all gradients is not finite, in a part that another node steps";
  }
  return Status::ok();
}

Status BucketSums::copy_to_all(Clock clock) {
  const std::vector<Bucket>& buckets = mesh_.buckets();
  for (std::size_t first = 0; first < buckets.size(); first += kInFlight) {
    std::vector<FormationMesh::Part> parts;
    for (std::size_t number = first; number < std::min(first + kInFlight, buckets.size()); ++number) {
      parts.push_back({*buckets[number].programs->copies, buckets[number].range});
    }
    PACELINE_RETURN_IF_ERROR(
        reduce(parts, first, clock, /*copies=*/true, FormationMesh::With::kNothing, [](std::size_t) {}));
  }
  return Status::ok();
}

// Of a step, and so buckets that are traced: one after the other as they are done. All are begun now.
Status BucketSums::reduce(std::span<const FormationMesh::Part> parts, std::size_t first, Clock clock,
                          bool copies, FormationMesh::With with,
                          const std::function<void(std::size_t number)>& on_done) {
  const Ticks began = now_();
  Ticks begin = began;
  return mesh_.reduce(parts, with, [&](std::size_t part) {
    on_done(first + part);
    if (!on_bucket_) return;
    const Ticks end = now_();
    on_bucket_({begin, end - begin, clock, static_cast<std::int64_t>(first + part),
                schedule::bytes_sent(parts[part].program), copies, begin - began});
    begin = end;
  });
}

}  // namespace paceline
