#include "worker/allreduce/formation_mesh.h"

#include <bit>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>

#include "common/assert.h"
#include "common/config/reducing.h"
#include "common/host_port.h"
#include "common/schedule/buckets.h"
#include "common/schedule/check.h"
#include "common/schedule/planners.h"
#include "common/schedule/reduction_times.h"
#include "worker/mesh/handshake.h"

namespace paceline {
namespace {

// For how long a peer may fall silent in the middle of a transfer. The authority, which hears of every node, has the
// first word: a lease.
constexpr int kSilenceLeases = 2;

// For the vector that is reduced. Where none can be had everything is sent.
std::shared_ptr<wire::SharedSegment> segment_for(const RunConfig& config, std::int64_t floats) {
  const std::uint32_t ranks = reducing_ranks(config);
  if (config.cluster.shared_memory == SharedMemory::kOff || ranks == 1) return nullptr;
  auto segment = wire::SharedSegment::create(mesh::SharedPeers::segment_bytes(floats, ranks));
  return segment.is_ok() ? std::move(segment).value() : nullptr;
}

std::pmr::memory_resource* memory_of(const std::shared_ptr<wire::SharedSegment>& segment) {
  return segment == nullptr ? std::pmr::get_default_resource() : segment.get();
}

std::chrono::milliseconds milliseconds(Duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

}  // namespace

FormationMesh::FormationMesh(const RunConfig& config, NodeId node, const Layout& layout, Ticks (*now)())
    : config_(config),
      node_(node),
      layout_(layout),
      now_(now),
      segment_(segment_for(config, layout.size() + std::int64_t{kCounts})),
      sum_(static_cast<std::size_t>(layout.size()) + kCounts, memory_of(segment_)) {}

std::chrono::milliseconds FormationMesh::silence() const {
  return kSilenceLeases * milliseconds(config_.cluster.lease);
}

Status FormationMesh::join(const mesh::Listening& listening, mesh::Place place) {
  unmet_.reset();
  PACELINE_ASSIGN_OR_RETURN(mesh::PeerConnections connections,
                            mesh::shake_hands(listening, place, stop_,
                                              milliseconds(config_.cluster.start_timeout), &unmet_, &begun_));
  return join(std::move(connections), std::move(place));
}

Status FormationMesh::join(mesh::PeerConnections connections, mesh::Place place) {
  place.shares = true;
  place_ = place;
  forget(place_.key);
  ranks_ = {place_.rank, static_cast<std::uint32_t>(place_.endpoints.size()), mesh::machines_of(place_)};
  // By a power of two a float of 32 bits is divided exactly, now as well as at the end; but for those below 2^-126
  // times the workers, which are rounded.
  const bool at_the_end =
      config_.cluster.gradient_encoding == Encoding::kFp32 && !std::has_single_bit(workers());
  weight_ = at_the_end ? 1.0F : 1.0F / static_cast<float>(workers());
  const std::span<const std::byte> sum = std::as_bytes(std::span(sum_));
  const bool is_shared = segment_ != nullptr && segment_->offset_of(sum.data(), sum.size());
  mesh_ = mesh::Mesh::over(std::move(connections), std::move(place), stop_);
  reductions_ = 0;
  bytes_taken_ = 0;
  return mesh_->share(milliseconds(config_.cluster.start_timeout), is_shared ? segment_ : nullptr);
}

Status FormationMesh::measure() {
  if (config_.exchange.algorithm != schedule::Algorithm::kAuto || ranks() == 1) return Status::ok();
  std::vector<std::int64_t> floats;
  for (const Range& range : schedule::buckets(layout_, config_.exchange.bucket_bytes))
    floats.push_back(range.size());
  const MeasureRequest request{ranks_,
                               floats,
                               sum(),
                               config_.cluster.gradient_encoding,
                               silence(),
                               now_,
                               config_.exchange.shard_optimizer};
  std::vector<std::string> hosts;
  for (const std::string& endpoint : place_.endpoints) hosts.push_back(host_and_port(endpoint).host);
  const std::filesystem::path file = choices_file(config_, node_);
  PACELINE_ASSIGN_OR_RETURN(choices_, choices_from(file, hosts, request, *mesh_, reductions_));
  return Status::ok();
}

void FormationMesh::plan(bool keeps) {
  BucketPlans plans = plan_buckets(config_, layout_, ranks_, choices_.choices, keeps);
  buckets_ = std::move(plans.buckets);
  of_counts_.emplace(program_of(kCounts));
  shares_ = std::move(plans.shares);
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) shares_.nodes.push_back(place_.node_of(rank));
}

std::uint32_t FormationMesh::workers() const {
  return ranks() * config_.cluster.threads_per_node * config_.pipeline.stages;
}

Status FormationMesh::reduce(std::span<const Part> parts, With with,
                             const std::function<void(std::size_t part)>& on_done) {
  std::vector<mesh::Mesh::Part> of_mesh;
  for (const auto& [program, range, beginning] : parts) {
    const std::span<float> floats =
        sum().subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.size()));
    of_mesh.push_back({program, floats, reductions_++, beginning});
  }
  if (with == With::kNothing) return mesh_->reduce(of_mesh, silence(), on_done);
  of_mesh.push_back({*of_counts_, counts(), reductions_++});
  PACELINE_RETURN_IF_ERROR(mesh_->reduce(of_mesh, silence(), [&](std::size_t part) {
    if (part < parts.size()) on_done(part);
  }));
  bytes_taken_ += schedule::bytes_sent(*of_counts_);  // of no bucket
  return Status::ok();
}

schedule::Program FormationMesh::program_of(std::int64_t floats) const {
  const Result<schedule::Plan> made = schedule::make_plan({schedule::Algorithm::kAuto, ranks(), floats, {}});
  const Status checked = made.is_ok() ? schedule::check(*made) : made.status();
  PACELINE_ASSERT(checked.is_ok(), checked.message());
  return {*made, rank()};
}

Status FormationMesh::sum_all(std::span<float> floats) {
  return mesh_->reduce(program_of(std::ssize(floats)), floats, reductions_++, silence());
}

Status FormationMesh::sum_counts() {
  PACELINE_RETURN_IF_ERROR(mesh_->reduce(*of_counts_, counts(), reductions_++, silence()));
  bytes_taken_ += schedule::bytes_sent(*of_counts_);  // of no bucket
  return Status::ok();
}

Status FormationMesh::await_all() {
  float nothing = 0.0F;
  PACELINE_RETURN_IF_ERROR(sum_all({&nothing, 1}));
  static_cast<void>(take_bytes_sent());  // of no bucket
  return Status::ok();
}

std::int64_t FormationMesh::take_bytes_sent() {
  return mesh_->bytes_sent() - std::exchange(bytes_taken_, mesh_->bytes_sent());
}

std::optional<NodeId> FormationMesh::gone() const {
  if (mesh_ == nullptr || !mesh_->gone()) return std::nullopt;
  return place_.node_of(*mesh_->gone());
}

}  // namespace paceline
