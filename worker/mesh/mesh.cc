#include "worker/mesh/mesh.h"

#include <algorithm>
#include <map>
#include <utility>

#include "worker/mesh/handshake.h"
#include "worker/mesh/spin.h"

namespace paceline::mesh {
namespace {

// Large enough that a call is worth its while, small enough for the second-level cache.
constexpr std::size_t kStagingFloats = 32 * 1024;

}  // namespace

std::vector<std::uint32_t> machines_of(const Place& place) {
  std::map<std::string, std::uint32_t> numbers;
  std::vector<std::uint32_t> machines;
  for (const std::string& endpoint : place.endpoints) {
    const std::string host = endpoint.substr(0, endpoint.rfind(':'));
    machines.push_back(numbers.emplace(host, static_cast<std::uint32_t>(numbers.size())).first->second);
  }
  return machines;
}

Mesh::Mesh(Place place, StopFlag& stop)
    : place_(std::move(place)),
      stop_(stop),
      has_keys_(place_.key.has_value()),
      staging_(kStagingFloats + 1),
      spin_(std::make_unique<Spin>()) {}

Mesh::~Mesh() = default;

Result<std::unique_ptr<Mesh>> Mesh::connect(const Listening& listening, Place place, StopFlag& stop,
                                            std::chrono::milliseconds within,
                                            std::shared_ptr<wire::SharedSegment> segment) {
  PACELINE_ASSIGN_OR_RETURN(PeerConnections connections, shake_hands(listening, place, stop, within));
  std::unique_ptr<Mesh> mesh = over(std::move(connections), std::move(place), stop);
  PACELINE_RETURN_IF_ERROR(mesh->share(within, std::move(segment)));
  return mesh;
}

std::unique_ptr<Mesh> Mesh::over(PeerConnections connections, Place place, StopFlag& stop) {
  std::unique_ptr<Mesh> mesh(new Mesh(std::move(place), stop));
  forget(mesh->place_.key);  // each connection has keys of its own
  mesh->peers_ = std::move(connections);
  return mesh;
}

Status Mesh::share(std::chrono::milliseconds within, std::shared_ptr<wire::SharedSegment> segment) {
  if (!place_.shares) return Status::ok();
  auto agreed = SharedPeers::agree(place_, peers_, std::move(segment), stop_, within);
  if (agreed.status().code() == StatusCode::kUnavailable) static_cast<void>(closed_peers());
  PACELINE_ASSIGN_OR_RETURN(shared_, std::move(agreed));
  return Status::ok();
}

std::vector<std::uint32_t> Mesh::closed_peers() {
  std::vector<std::uint32_t> closed;
  for (std::uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank != place_.rank && peers_[rank]->is_closed()) closed.push_back(rank);
  }
  if (!closed.empty()) gone_ = closed.front();
  return closed;
}

Status Mesh::reduce(const schedule::Program& program, std::span<float> vector, std::uint32_t number,
                    std::chrono::milliseconds silence, const Beginning& beginning) {
  const std::span<float> readable = shares_memory() ? shared_->readable(vector) : vector;
  const bool copied = readable.data() != vector.data();
  if (copied) std::copy(vector.begin(), vector.end(), readable.begin());
  const Part whole{program, readable, number, beginning};
  const Status reduced = reduce({&whole, 1}, silence, [](std::size_t) {});
  if (copied) std::copy(readable.begin(), readable.end(), vector.begin());
  return reduced;
}

}  // namespace paceline::mesh
