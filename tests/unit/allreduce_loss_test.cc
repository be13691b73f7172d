// Ranks of an all-reduce that are killed at random moments of a step, under every algorithm: the exchange as it is,
// over real sockets, with the authority's rule of who goes on from what (server/authority/formations.h). Those that are
// left have at each version the same bits, which are those of a loop that sums the gradients of whoever took part in
// that step, whole: nothing of a step that was cut off is anywhere.
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "common/ticks.h"
#include "tests/seeds.h"
#include "tests/unit/formation_authority.h"
#include "worker/allreduce/allreduce_exchange.h"
#include "worker/allreduce/node_model.h"
#include "worker/mesh/connection.h"
#include "worker/mesh/peer_socket.h"

namespace paceline::testing {
namespace {

using schedule::Algorithm;
using schedule::name_of;
using Floats = std::vector<float>;

constexpr std::uint64_t kSchedules = 1000;
constexpr std::int64_t kSteps = 5;
constexpr std::int64_t kTensors = 4;
constexpr std::int64_t kTensorFloats = 6000;  // some transfers each
constexpr std::int64_t kBatch = 8;

Layout layout_of_run() {
  Layout layout;
  for (std::int64_t t = 0; t < kTensors; ++t) REQUIRE(layout.add("t" + std::to_string(t), {kTensorFloats}));
  return layout;
}

struct Death {
  std::uint32_t node = 0;
  std::int64_t clock = 0;
  std::int64_t final_from = 0;  // of its gradient, as far as it is handed over; 0: all of it
  std::chrono::microseconds later{0};
};

// All leave their formation, and nobody is lost: as where two do not reach each other any more.
struct BreakUp {
  std::int64_t clock = 0;
  std::chrono::microseconds later{0};
};

// With on_nan: skip: a gradient that makes its sum none, of which there is no step then.
struct NotFinite {
  std::uint32_t node = 0;
  std::int64_t clock = 0;
  std::size_t at = 0;
};

struct Schedule {
  RunConfig config;
  std::optional<BreakUp> break_up;
  std::vector<Death> deaths;
  std::optional<NotFinite> not_finite;
  bool halves =
      false;  // some mini-batches are half as large, which is not known when their gradients begin to leave

  std::int64_t samples_of(std::uint32_t node, std::int64_t clock) const {
    return halves && (node + static_cast<std::uint32_t>(clock)) % 3 == 0 ? kBatch / 2 : kBatch;
  }
};

// Two nodes die only where some are left.
Schedule schedule_of(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&](std::uint64_t below) { return random() % below; };
  Schedule s;
  constexpr Algorithm kAll[] = {Algorithm::kRing,  Algorithm::kHalvingDoubling, Algorithm::kBinaryBlocks,
                                Algorithm::kTorus, Algorithm::kHierarchical,    Algorithm::kDirect,
                                Algorithm::kTree};
  const Algorithm algorithm = kAll[seed % std::size(kAll)];
  RunConfig& config = s.config;
  config.exchange.kind = ExchangeKind::kAllreduce;
  config.exchange.algorithm = algorithm;
  config.exchange.bucket_bytes = kTensorFloats * 4;
  config.cluster.nodes =
      algorithm == Algorithm::kHalvingDoubling ? 4 : static_cast<std::uint32_t>(2 + draw(5));
  config.cluster.start_timeout = std::chrono::seconds(60);
  config.cluster.lease = std::chrono::seconds(30);
  config.cluster.shared_memory = draw(2) == 0 ? SharedMemory::kAuto : SharedMemory::kOff;
  config.train.optimizer.kind = draw(2) == 0 ? OptimizerKind::kMomentum : OptimizerKind::kAdam;
  config.train.optimizer.lr = 0.5;
  config.exchange.shard_optimizer = algorithm != Algorithm::kTree && draw(2) == 0;
  const bool whole_tensors = config.exchange.shard_optimizer && seed % 3 == 0;  // at two nodes or more
  if (whole_tensors)
    config.train.optimizer.kind = seed % 2 == 0 ? OptimizerKind::kLars : OptimizerKind::kLamb;
  const std::uint32_t nodes = config.cluster.nodes;
  // Of an optimizer's state the next owner has what the one before it had: both may not go at once. In binary blocks
  // other nodes may be the next than those beside each other.
  const bool owners_beside =
      !whole_tensors && (algorithm != Algorithm::kBinaryBlocks || std::has_single_bit(nodes));
  const bool several = config.exchange.shard_optimizer ? owners_beside && nodes > 3 && draw(2) == 0
                                                       : nodes > 2 && draw(2) == 0;
  const auto first = static_cast<std::uint32_t>(draw(nodes));
  std::set<std::uint32_t> dead = {first};
  if (several) {
    const auto apart = config.exchange.shard_optimizer ? 2 + draw(nodes - 3) : 1 + draw(nodes - 1);
    dead.insert(static_cast<std::uint32_t>((first + apart) % nodes));
  }
  const auto clock = static_cast<std::int64_t>(1 + draw(kSteps - 1));
  for (const std::uint32_t node : dead) {
    const bool together = draw(2) == 0;
    s.deaths.push_back({node, together ? clock : static_cast<std::int64_t>(1 + draw(kSteps - 1)),
                        static_cast<std::int64_t>(draw(kTensors)) * kTensorFloats,
                        std::chrono::microseconds(draw(400))});
  }
  if (draw(2) == 0)
    s.break_up = {static_cast<std::int64_t>(1 + draw(kSteps - 1)), std::chrono::microseconds(draw(1500))};
  if (draw(2) == 0) {
    config.train.on_nan = OnNan::kSkip;
    s.not_finite = {static_cast<std::uint32_t>(draw(nodes)), static_cast<std::int64_t>(draw(kSteps)),
                    draw(kTensors * kTensorFloats)};
  }
  config.train.batch_size = kBatch;
  s.halves = draw(2) == 0;
  return s;
}

// Whole numbers, whose sums no order rounds.
Floats gradient_of(const Schedule& schedule, std::uint32_t node, std::int64_t clock) {
  Floats floats(static_cast<std::size_t>(kTensors * kTensorFloats));
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>((i * 31 + node * 7 + static_cast<std::size_t>(clock) * 13) % 64) - 20.0F;
  }
  const auto& none = schedule.not_finite;
  if (none && none->node == node && none->clock == clock)
    floats[none->at] = std::numeric_limits<float>::infinity();
  return floats;
}

// One node's life: what it has at each version, from 1 on.
struct Life {
  std::vector<RunState> states;
  std::vector<std::uint32_t> formations;  // in which it has gone on
  std::string wrong;
};

void live(const Schedule& schedule, std::uint32_t node, const Layout& layout, FormationAuthority& authority,
          Life& life) {
  ProcessCache cache({{0, layout.size()}});
  std::string failed;
  std::mutex failed_mutex;
  AllReduceExchange exchange(
      {schedule.config,
       NodeId(node),
       layout,
       cache,
       steady_now,
       [&](const Status& why) {
         const std::lock_guard lock(failed_mutex);
         failed = name_of(why.code()) + (": " + why.message());
       },
       [&](const AllReduceExchange::Parting& parting) { return authority.meet(node, parting); },
       {},
       [&](const AllReduceExchange::Meeting& meeting) { life.formations.push_back(meeting.formation); }});
  const auto wrong = [&](const std::string& what) {
    life.wrong = "node " + std::to_string(node) + ": " + what;
    authority.lost(node);
  };
  auto first = authority.meet(node, {});
  if (!first.is_ok()) return wrong(first.status().message());
  if (Status met = exchange.connect(first->listening, first->place); !met.is_ok())
    return wrong(met.message());
  const auto size = static_cast<std::size_t>(layout.size());
  if (Status begun = exchange.begin({Version(0), Floats(size, 1.0F)}); !begun.is_ok())
    return wrong(begun.message());
  authority.begins(node, exchange);
  const auto death = std::find_if(schedule.deaths.begin(), schedule.deaths.end(),
                                  [node](const Death& d) { return d.node == node; });
  for (std::int64_t clock = 0; clock < kSteps; ++clock) {
    const auto own = std::make_shared<const Floats>(gradient_of(schedule, node, clock));
    const Contribution gradient{WorkerId(node, 0), Clock(clock), schedule.samples_of(node, clock),
                                Version(clock),    {},           own};
    std::thread killer;
    const bool dies = death != schedule.deaths.end() && death->clock == clock;
    if (dies) {
      killer = std::thread([&] {
        const Ticks begin = steady_now();
        while (steady_now() - begin < death->later) std::this_thread::yield();
        exchange.close(aborted("killed"));
        authority.closes(node);
      });
    }
    const auto& breaks = schedule.break_up;
    std::thread breaker;
    if (node == 0 && breaks && breaks->clock == clock) {
      breaker = std::thread([&] {
        const Ticks begin = steady_now();
        while (steady_now() - begin < breaks->later) std::this_thread::yield();
        authority.break_up();
      });
    }
    if (schedule.halves) exchange.push_early(gradient, 2 * kTensorFloats);
    if (dies && death->final_from > 0) {
      exchange.push_early(gradient, death->final_from);
    } else {
      exchange.push(gradient);
    }
    if (breaker.joinable()) breaker.join();
    if (dies) {
      killer.join();
      exchange.stop();
      authority.lost(node);
      return;
    }
    const auto state = exchange.state_at(Version(clock + 1));
    if (state == nullptr) {
      authority.closes(node);
      exchange.stop();  // after which it has said why
      return wrong("no version " + std::to_string(clock + 1) + ": " + failed);
    }
    life.states.push_back(*state);
    if (*own != gradient_of(schedule, node, clock)) return wrong("its gradient has changed");
    if (!authority.report(node, clock)) return wrong("hangs after clock " + std::to_string(clock));
  }
  authority.ends(node);
  exchange.close(aborted("the run is over"));
  authority.closes(node);
}

// The state that follows a sum of those gradients. Where it is left out, t alone is another one.
void step(const Schedule& schedule, OptimizerState& optimizer, Floats& parameters, std::int64_t clock,
          const std::set<std::uint32_t>& nodes) {
  const double rate = schedule.config.train.optimizer.lr;
  const auto& none = schedule.not_finite;
  if (none && none->clock == clock && nodes.contains(none->node)) return optimizer.begin_step(rate);
  Floats sum(parameters.size());
  std::int64_t samples = 0;
  for (const std::uint32_t node : nodes) {
    const Floats gradient = gradient_of(schedule, node, clock);
    const auto weight = static_cast<float>(schedule.samples_of(node, clock)) / kBatch;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * gradient[i];
    samples += schedule.samples_of(node, clock);
  }
  const float share = 1.0F / static_cast<float>(nodes.size());
  const auto all = kBatch * std::ssize(nodes);
  const auto weighed = static_cast<float>(static_cast<double>(all) / static_cast<double>(samples));
  for (float& value : sum) value = value * share * weighed;
  optimizer.apply(parameters, sum, rate);
}

Floats state_of(const OptimizerState& optimizer, const Floats& parameters) {
  Floats state = parameters;
  const OptimizerImage image = optimizer.image();
  for (const BlockRange* vector : {&image.first, &image.second}) {
    const std::size_t begin = state.size();
    state.resize(begin + static_cast<std::size_t>(vector->size()));
    vector->copy_to(0, std::span(state).subspan(begin));
  }
  return state;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

Floats parts_of(const Floats& all, const std::optional<std::vector<Range>>& parts) {
  if (!parts) return all;
  Floats floats;
  for (const Range& part : *parts)
    floats.insert(floats.end(), all.begin() + part.begin, all.begin() + part.end);
  return floats;
}

struct Tally {
  std::uint64_t given = 0;
  std::uint64_t made_again = 0;
  std::uint64_t several = 0;  // formations after the second
  std::uint64_t skipped = 0;  // of what was given: a step is left out, too
};

std::string violation_of(std::uint64_t seed, Tally& tally) {
  const Schedule schedule = schedule_of(seed);
  const std::uint32_t nodes = schedule.config.cluster.nodes;
  const Layout layout = layout_of_run();
  FormationAuthority authority(nodes);
  std::vector<Life> lives(nodes);
  std::vector<std::thread> threads;
  for (std::uint32_t node = 0; node < nodes; ++node) {
    threads.emplace_back([&, node] { live(schedule, node, layout, authority, lives[node]); });
  }
  for (std::thread& thread : threads) thread.join();
  tally.given += authority.was_given() ? 1 : 0;
  tally.made_again += authority.was_made_again() ? 1 : 0;
  tally.several += authority.formations() > 2 ? 1 : 0;
  tally.skipped += schedule.not_finite && authority.was_given() ? 1 : 0;

  std::ostringstream words;
  words << "seed " << seed << ", " << name_of(schedule.config.exchange.algorithm)
        << (schedule.config.exchange.shard_optimizer ? " with shares" : "") << ", " << nodes << " nodes";
  for (const Death& death : schedule.deaths)
    words << ", node " << death.node << " dies at clock " << death.clock;
  if (const auto& none = schedule.not_finite)
    words << ", the gradient of node " << none->node << " at clock " << none->clock << " is not finite";
  if (schedule.halves) words << ", with half mini-batches";
  words << ": ";
  for (const Life& life : lives) {
    if (!life.wrong.empty()) return words.str() + life.wrong;
  }
  if (const auto node = authority.blamed())
    return words.str() + "node " + to_string(*node) + " is taken for lost, and lives";
  const auto in_steps = authority.in_steps();
  if (std::ssize(in_steps) != kSteps) return words.str() + std::to_string(in_steps.size()) + " steps";
  const FactorRanges factors(layout, schedule.config.train.optimizer, {0, layout.size()});
  OptimizerState optimizer(schedule.config.train.optimizer, layout.size(), layout.size(), factors);
  Floats parameters(static_cast<std::size_t>(layout.size()), 1.0F);
  for (std::int64_t clock = 0; clock < kSteps; ++clock) {
    step(schedule, optimizer, parameters, clock, in_steps[static_cast<std::size_t>(clock)]);
    const Floats expected = state_of(optimizer, parameters);
    for (std::uint32_t node = 0; node < nodes; ++node) {
      const bool dies = std::any_of(schedule.deaths.begin(), schedule.deaths.end(),
                                    [node](const Death& d) { return d.node == node; });
      const auto& states = lives[node].states;
      if (!dies && std::ssize(states) != kSteps)
        return words.str() + "node " + std::to_string(node) + " ends early";
      if (std::ssize(states) <= clock) continue;
      const RunState& state = states[static_cast<std::size_t>(clock)];
      if (!same_bits(state.floats, parts_of(expected, state.parts))) {
        return words.str() + "node " + std::to_string(node) + " has another version " +
               std::to_string(clock + 1);
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("those_that_are_left_of_an_all_reduce_go_on_from_the_last_whole_step") {
  const Seeds range = seeds(kSchedules);
  Tally tally;
  for (std::uint64_t i = 0; i < range.count; ++i) {
    REQUIRE(violation_of(range.first + i, tally) == "");
  }
  WARN("of " << range.count << " schedules, " << tally.given << " gave a whole step to others ("
             << tally.skipped << " of which leave one out), " << tally.made_again << " made one anew, "
             << tally.several << " had more than two formations");
}

TEST_CASE("who is given a version after a step that was left out goes on with the same bits") {
  Schedule schedule;
  schedule.config.exchange.kind = ExchangeKind::kAllreduce;
  schedule.config.train.optimizer.kind = GENERATE(OptimizerKind::kAdam, OptimizerKind::kLamb);
  const Layout layout = layout_of_run();
  const PlaceInRun all{0, layout.size()};
  NodeModel holder(schedule.config, layout, all, nullptr);
  NodeModel given(schedule.config, layout, all, nullptr);
  REQUIRE(holder.begin({Version(0), Floats(static_cast<std::size_t>(layout.size()), 1.0F)}, {}).is_ok());
  const auto step = [&](NodeModel& model, std::int64_t clock) {
    Floats mean = gradient_of(schedule, 0, clock);
    model.step(mean);
  };
  step(holder, 0);
  holder.skip_step();
  REQUIRE(given.take_over(*holder.state()()).is_ok());
  for (NodeModel* const model : {&holder, &given}) step(*model, 2);
  CHECK(holder.version() == Version(3));
  CHECK(same_bits(holder.state()()->floats, given.state()()->floats));
}

// Node 1 of a formation that node 0, played here, has come to: as a Hello says, and where `answers`, node 1 knows.
struct HalfMet {
  bool is_closed = true;
  bool is_listening = false;
};
HalfMet half_met(bool answers) {
  Schedule schedule;
  schedule.config.exchange.kind = ExchangeKind::kAllreduce;
  schedule.config.cluster.nodes = 2;
  const Layout layout = layout_of_run();
  ProcessCache cache({{0, layout.size()}});
  const auto node_0 = mesh::listen_at("127.0.0.1");
  REQUIRE(node_0.is_ok());
  std::unique_ptr<mesh::Connection> connection;
  std::string endpoint;
  HalfMet found;
  std::promise<void> failed;
  AllReduceExchange exchange(
      {schedule.config, NodeId(1), layout, cache, steady_now, [&](const Status&) { failed.set_value(); },
       [&](const AllReduceExchange::Parting& parting) -> Result<AllReduceExchange::Meeting> {
         if (parting.formation == 2) {
           found.is_closed = !connection->drain().is_ok();
           found.is_listening =
               mesh::connect_to(endpoint, mesh::StopFlag(), std::chrono::seconds(20)).is_ok();
           return aborted("enough is known");
         }
         PACELINE_ASSIGN_OR_RETURN(mesh::Listening own, mesh::listen_at("127.0.0.1"));
         endpoint = own.endpoint;
         const mesh::Place place{1, {node_0->endpoint, endpoint}, 7};
         return AllReduceExchange::Meeting{2, std::move(own), place, Version(0), {}};
       }});
  const auto alone = mesh::listen_at("127.0.0.1");
  REQUIRE(alone.is_ok());
  REQUIRE(exchange.connect(*alone, {0, {alone->endpoint}, 7, {NodeId(1)}}).is_ok());
  const auto size = static_cast<std::size_t>(layout.size());
  REQUIRE(exchange.begin({Version(0), Floats(size, 1.0F)}).is_ok());
  exchange.leave(1, "node 2 is lost");
  const auto await = [](int descriptor) {
    pollfd waits = {descriptor, POLLIN, 0};
    REQUIRE(poll(&waits, 1, 20'000) == 1);
  };
  await(node_0->socket.get());
  auto accepted = mesh::accept_from(node_0->socket);
  REQUIRE(accepted.is_ok());
  connection = std::make_unique<mesh::Connection>(std::move(accepted).value());
  std::array<std::uint32_t, 4> hello{};  // what "PLM2" is, the rank, the token
  await(connection->descriptor());
  REQUIRE(connection->receive(hello.data(), sizeof hello).value() == sizeof hello);
  if (answers) {
    hello[1] = 0;
    const iovec own{hello.data(), sizeof hello};
    REQUIRE(connection->send({&own, 1}).value() == sizeof hello);
    await(connection->descriptor());  // node 1 says what it shares, and waits for what node 0 does
  }
  exchange.leave(2, "node 3 is lost");
  failed.get_future().wait();
  await(connection->descriptor());
  CHECK_FALSE(connection->drain().is_ok());  // now it is
  return found;
}

TEST_CASE("who leaves a formation that does not stand yet is there for the others until all have met anew") {
  const HalfMet found = half_met(/*answers=*/GENERATE(false, true));
  CHECK_FALSE(found.is_closed);
  CHECK(found.is_listening);
}

// Of three nodes the one whose state is lost and its keeper, before any step is made without the first.
TEST_CASE("a share of the optimizer's state that is lost with its keeper ends the run, naming both") {
  Schedule schedule = schedule_of(0);
  schedule.config.exchange.shard_optimizer = true;
  schedule.config.exchange.algorithm = Algorithm::kRing;
  schedule.config.cluster.nodes = 3;
  schedule.break_up.reset();
  schedule.not_finite.reset();
  schedule.halves = false;
  const Layout layout = layout_of_run();
  const auto lives_with = [&](const std::vector<Death>& deaths) {
    schedule.deaths = deaths;
    FormationAuthority authority(3);
    std::vector<Life> lives(3);
    std::vector<std::thread> threads;
    for (std::uint32_t node = 0; node < 3; ++node) {
      threads.emplace_back([&, node] { live(schedule, node, layout, authority, lives[node]); });
    }
    for (std::thread& thread : threads) thread.join();
    return lives;
  };
  const Life left = lives_with({{0, 2, kTensorFloats, {}}, {1, 2, kTensorFloats, {}}})[2];
  CHECK_THAT(left.wrong, Catch::Matchers::EndsWith(
                             "DATA_LOSS: the optimizer's state of node 0 is lost, since node 1, which "
                             "has kept it, is lost as well"));
  CHECK(left.states.size() == 2);
  // It does not go on; but while node 1 is still alive the two may have met without node 0.
  CHECK((left.formations.empty() || left.formations == std::vector<std::uint32_t>{2}));
  const Life goes_on = lives_with({{0, 2, kTensorFloats, {}}})[2];
  CHECK((goes_on.states.size() == kSteps && goes_on.formations == std::vector<std::uint32_t>{2}));
}

}  // namespace paceline::testing
