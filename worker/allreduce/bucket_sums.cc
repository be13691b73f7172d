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
Result<std::string> BucketSums::sum(std::size_t number, Clock clock, const std::vector<SharedFloats>& own) {
  const Bucket& bucket = mesh_.buckets()[number];
  const auto begin = static_cast<std::size_t>(bucket.range.begin);
  const auto size = static_cast<std::size_t>(bucket.range.size());
  const std::span<float> summed = mesh_.sum().subspan(begin, size);
  const BucketPrograms& programs = *bucket.programs;
  // In the order of threads, as servers sum.
  const auto make = [&](std::int64_t at, std::span<float> out) {
    const auto of_thread = [&](std::size_t t) {
      return own[t].floats.subspan(begin + static_cast<std::size_t>(at), out.size());
    };
    begin_sum(out, of_thread(0), mesh_.weight());
    for (std::size_t t = 1; t < own.size(); ++t) add_weighted(out, of_thread(t), mesh_.weight());
  };
  for (const Range& part : programs.first.rest) make(part.begin, bucket_part(summed, part));
  PACELINE_RETURN_IF_ERROR(
      reduce(programs.sums, number, clock, /*copies=*/false, {&programs.first.rows, make}));
  const std::vector<Range> all = {{0, bucket.range.size()}};
  const bool rounds = is_sharded_ && mesh_.ranks() > 1 && programs.sums.encoding != Encoding::kFp32;
  for (const Range& here : is_sharded_ ? programs.own : all) {
    const std::span<float> part = bucket_part(summed, here);
    if (rounds) round_as(programs.sums.encoding, part);
    const auto at = first_non_finite(part);
    if (!at) continue;
    return "the sum of all gradients is not finite: " +
           describe_non_finite(part[static_cast<std::size_t>(*at)], bucket.range.begin + here.begin + *at,
                               layout_);
  }
  // While the backward pass goes on.
  if (!is_sharded_) make_mean(bucket.range);
  return std::string();
}

void BucketSums::make_mean(Range part) const {
  if (mesh_.weight() == 1.0F && mesh_.workers() > 1) {
    scale(bucket_part(mesh_.sum(), part), 1.0F / static_cast<float>(mesh_.workers()));
  }
}

Status BucketSums::copy_to_all(Clock clock) {
  for (std::size_t number = 0; number < mesh_.buckets().size(); ++number) {
    PACELINE_RETURN_IF_ERROR(
        reduce(*mesh_.buckets()[number].programs->copies, number, clock, /*copies=*/true, {}));
  }
  return Status::ok();
}

// Of a step, and so a bucket that is traced.
Status BucketSums::reduce(const schedule::Program& program, std::size_t number, Clock clock, bool copies,
                          const mesh::Mesh::Beginning& beginning) {
  const std::int64_t sent = mesh_.bytes_sent();
  const Ticks begin = now_();
  PACELINE_RETURN_IF_ERROR(mesh_.reduce(program, mesh_.buckets()[number].range, beginning));
  if (on_bucket_) {
    on_bucket_(
        {begin, now_() - begin, clock, static_cast<std::int64_t>(number), mesh_.bytes_sent() - sent, copies});
  }
  return Status::ok();
}

}  // namespace paceline
