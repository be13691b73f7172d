// Ranks of a mesh that are threads of a test.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/schedule/planners.h"
#include "common/wire/shared_memory.h"
#include "worker/mesh/mesh.h"

namespace paceline::mesh {

inline constexpr std::chrono::milliseconds kWithin(20'000);

// Ranks that listen; each is then run by a thread of its own.
struct Ranks {
  explicit Ranks(std::uint32_t count) : stops(count) {
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      auto listening = listen_at("127.0.0.1");
      REQUIRE(listening.is_ok());
      endpoints.push_back(listening->endpoint);
      listeners.push_back(std::make_unique<Listening>(std::move(listening).value()));
    }
  }
  // From now on they share memory, in which vectors of so many floats lie.
  void share(std::int64_t floats) {
    for (std::size_t rank = 0; rank < endpoints.size(); ++rank) {
      auto segment = wire::SharedSegment::create(SharedPeers::segment_bytes(floats, endpoints.size()));
      REQUIRE(segment.is_ok());
      segments.push_back(std::move(segment).value());
    }
  }
  std::pmr::vector<float> vector(std::uint32_t rank, const std::vector<float>& values) const {
    auto* const memory = segments.empty() ? std::pmr::get_default_resource() : segments[rank].get();
    return {values.begin(), values.end(), memory};
  }
  Result<std::unique_ptr<Mesh>> connect(std::uint32_t rank, std::chrono::milliseconds within = kWithin) {
    return Mesh::connect(*listeners[rank], place(rank), stops[rank], within,
                         segments.empty() ? nullptr : segments[rank]);
  }
  Place place(std::uint32_t rank) const { return {rank, endpoints, 7, {}, !segments.empty(), key}; }
  // `body` of every rank to its end.
  std::vector<Status> run(const std::function<Status(Mesh&, std::uint32_t)>& body) {
    std::vector<Status> ended(endpoints.size());
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < endpoints.size(); ++rank) {
      threads.emplace_back([this, rank, &body, &ended] {
        auto mesh = connect(rank);
        ended[rank] = mesh.is_ok() ? body(**mesh, rank) : mesh.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return ended;
  }

  std::vector<std::unique_ptr<Listening>> listeners;
  std::vector<std::string> endpoints;
  std::vector<StopFlag> stops;
  std::vector<std::shared_ptr<wire::SharedSegment>> segments;  // by rank; empty: none share
  std::optional<FormationKey> key;
};

inline schedule::Plan planned(schedule::Algorithm algorithm, std::uint32_t ranks, std::int64_t floats) {
  auto plan = schedule::make_plan({algorithm, ranks, floats, {}, /*segment_floats=*/4000});
  REQUIRE(plan.is_ok());
  return std::move(plan).value();
}

// What no order of additions rounds: whole numbers.
inline std::vector<float> whole_numbers(std::uint32_t rank, std::int64_t floats) {
  std::vector<float> values(static_cast<std::size_t>(floats));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 31 + rank * 7) % 1000);
  return values;
}

}  // namespace paceline::mesh
