// Every field of every message, for tests: fields(m) is a tuple of references to all of them. Each list is a
// structured binding, so that a field added to a struct and forgotten here does not compile. On top of it:
// equality, and random messages of the right form.
#pragma once

#include <algorithm>
#include <bit>
#include <tuple>
#include <type_traits>

#include "common/random.h"
#include "common/wire/messages.h"

namespace paceline::wire {

template <typename M>
auto fields(M& m) {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, Join>) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, n] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n);
  } else if constexpr (std::is_same_v<T, ApplyDecision>) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (std::is_same_v<T, Grant>) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q);
  } else if constexpr (std::is_same_v<T, ShardJoin> || std::is_same_v<T, StepReport>) {
    auto& [a, b, c, d, e, f, g, h, i, j] = m;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (std::is_same_v<T, NodeReport>) {
    auto& [a, b, c, d, e, f, g, h, i] = m;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (std::is_same_v<T, Push> || std::is_same_v<T, Peers>) {
    auto& [a, b, c, d, e, f, g, h] = m;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (std::is_same_v<T, Parameters> || std::is_same_v<T, ShardReport>) {
    auto& [a, b, c, d, e, f, g] = m;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (std::is_same_v<T, HeldNotice> || std::is_same_v<T, WorkerReport> ||
                       std::is_same_v<T, ReplicaJoin>) {
    auto& [a, b, c, d, e, f] = m;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (std::is_same_v<T, Unchanged> || std::is_same_v<T, GradientArrived> ||
                       std::is_same_v<T, Welcome> || std::is_same_v<T, Pull>) {
    auto& [a, b, c, d, e] = m;
    return std::tie(a, b, c, d, e);
  } else if constexpr (std::is_same_v<T, PhaseStat> || std::is_same_v<T, Contribution> ||
                       std::is_same_v<T, Saved> || std::is_same_v<T, RunOver> ||
                       std::is_same_v<T, LocalEvent> || std::is_same_v<T, Heartbeat> ||
                       std::is_same_v<T, Tensor> || std::is_same_v<T, NodeLost>) {
    auto& [a, b, c, d] = m;
    return std::tie(a, b, c, d);
  } else if constexpr (std::is_same_v<T, FinishWorker> || std::is_same_v<T, EvaluationReport> ||
                       std::is_same_v<T, Error> || std::is_same_v<T, ReplicaResumes> ||
                       std::is_same_v<T, Metric> || std::is_same_v<T, ShardWelcome> ||
                       std::is_same_v<T, ReplicaWelcome> || std::is_same_v<T, ShardReady> ||
                       std::is_same_v<T, Evaluate> || std::is_same_v<T, NodeState> ||
                       std::is_same_v<T, Leave>) {
    auto& [a, b, c] = m;
    return std::tie(a, b, c);
  } else if constexpr (std::is_same_v<T, Release> || std::is_same_v<T, StopRun> ||
                       std::is_same_v<T, Reconfigure> || std::is_same_v<T, LogAck> ||
                       std::is_same_v<T, StateWanted>) {
    auto& [a] = m;
    return std::tie(a);
  } else if constexpr (std::is_empty_v<T>) {
    return std::tie();
  } else {
    auto& [a, b] = m;
    return std::tie(a, b);
  }
}

// ---- equality

template <typename T>
concept Plain = requires(const T& a, const T& b) { a == b; };

template <typename T>
bool same(const T& a, const T& b);

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::ranges::equal(a, b, [](const T& x, const T& y) { return same(x, y); });
}

template <typename T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) {
    return a == b || (a != a && b != b);  // NaN is NaN
  } else if constexpr (std::is_same_v<T, Body>) {
    const auto same_kind = [&](const auto& x) { return same(x, std::get<std::decay_t<decltype(x)>>(b)); };
    return a.index() == b.index() && std::visit(same_kind, a);
  } else if constexpr (Plain<T>) {
    return a == b;
  } else {
    const auto each = [](const auto&... x) { return [&](const auto&... y) { return (same(x, y) && ...); }; };
    return std::apply(std::apply(each, fields(a)), fields(b));
  }
}

template <>
inline bool same(const PhaseTotals& a, const PhaseTotals& b) {
  return a.wall_ns == b.wall_ns &&
         std::ranges::equal(a.phases, b.phases,
                            [](const PhaseStat& x, const PhaseStat& y) { return same(x, y); });
}

// ---- random messages of the right form

struct Generator {
  CounterRandom random;

  // Small and very large numbers alike; never negative.
  std::int64_t number() {
    return static_cast<std::int64_t>(random.next_u64() >> (4 + random.next_below(60)));
  }

  void fill(std::int64_t& v) { v = number(); }
  void fill(std::uint64_t& v) { v = random.next_u64(); }
  void fill(std::uint32_t& v) { v = 1 + static_cast<std::uint32_t>(random.next_below(4096)); }
  void fill(bool& v) { v = random.next_below(2) == 1; }
  void fill(double& v) { v = random.next_double() * 1e6; }
  void fill(Clock& v) { v = Clock(number()); }
  void fill(Version& v) { v = Version(number()); }
  void fill(Revision& v) { v = Revision(number()); }
  void fill(Staleness& v) { v = Staleness(random.next_below(2) == 1 ? number() : -number()); }
  void fill(Threshold& v) { v = random.next_below(4) == 0 ? Threshold::infinite() : Threshold(number()); }
  void fill(NodeId& v) { v = NodeId(static_cast<std::uint32_t>(random.next_below(65536))); }
  void fill(ShardId& v) { v = ShardId(static_cast<std::uint32_t>(random.next_below(4096))); }
  void fill(WorkerId& v) {
    fill(v.node);
    v.thread = static_cast<std::uint32_t>(random.next_below(4096));
  }
  void fill(std::optional<NodeId>& v) {
    v.emplace();
    fill(*v);
  }
  void fill(std::optional<FormationKey>& v) {
    if (random.next_below(2) == 0) return v.reset();
    for (std::byte& byte : v.emplace()) byte = static_cast<std::byte>(random.next_below(256));
  }
  void fill(std::optional<Range>& v) {
    if (random.next_below(2) == 0) return v.reset();
    v = Range{number() >> 24, 0};
    v->end = v->begin + (number() >> 24);
  }
  void fill(LossScale& v) {
    v = {};
    if (random.next_below(2) == 0) return;
    v.scale = static_cast<double>(std::uint64_t{1} << random.next_below(25));
    v.good_steps = static_cast<std::int64_t>(random.next_below(LossScale::kGrowthInterval));
  }
  void fill(StageReport& v) {
    fill(v.busy);
    fill(v.idle);
    fill(v.activation_bytes);
    fill(v.idle_for_previous);
  }
  void fill(std::chrono::nanoseconds& v) { v = std::chrono::nanoseconds(number()); }
  void fill(StatusCode& v) { v = static_cast<StatusCode>(1 + random.next_below(10)); }
  void fill(LocalEvent::What& v) { v = static_cast<LocalEvent::What>(random.next_below(10)); }
  void fill(CheckpointFile& v) { v = static_cast<CheckpointFile>(random.next_below(2)); }
  void fill(ApplyMode& v) { v = static_cast<ApplyMode>(random.next_below(2)); }
  void fill(Combine& v) { v = random.next_below(2) == 1 ? Combine::kMean : Combine::kEach; }
  void fill(std::string& v) {
    static const std::string kCharacters[] = {"a", "Z", " ", "\"", "{", "ä", "∞", "𝒫"};
    v.clear();
    for (std::uint64_t n = random.next_below(20); n > 0; --n) v += kCharacters[random.next_below(8)];
  }
  void fill(Range& v) {
    v.begin = static_cast<std::int64_t>(random.next_below(1 << 30));
    v.end = v.begin + static_cast<std::int64_t>(random.next_below(1 << 30));
  }
  void fill(Metric& v) {
    fill(v.loss_sum);
    v.samples = std::min(number(), std::int64_t{1} << 32);
    v.correct = random.next_below(4) == 0 ? Metric::kNotCounted : v.samples / 2;
  }
  void fill(CheckpointId& v) {
    v.generation = static_cast<std::uint64_t>(1 + number());
    fill(v.version);
  }
  void fill(FileDigest& v) { v = {static_cast<std::uint64_t>(number()), random.next_u64()}; }
  void fill(std::optional<CheckpointId>& v) {
    v.reset();
    if (random.next_below(2) == 1) fill(v.emplace());
  }
  void fill(PhaseStat& v) {
    std::tie(v.count, v.total_ns, v.hidden_ns) = std::tuple(number(), number(), number());
    for (std::uint16_t bucket = 0; bucket < 600;
         bucket += 1 + static_cast<std::uint16_t>(random.next_below(200))) {
      v.histogram.emplace_back(bucket, 1 + number());
    }
  }
  void fill(PhaseTotals& v) {
    for (PhaseStat& stat : v.phases) fill(stat);
    v.wall_ns = number();
  }
  void fill(Traffic& v) { v = {number(), number(), number(), number(), std::chrono::nanoseconds(number())}; }
  void fill(PhaseTimes& v) {
    for (std::int64_t& ns : v.phases) ns = number();
    v.wall = number();
  }
  void fill(std::vector<Tensor>& v) {
    std::int64_t offset = 0;
    for (std::uint64_t n = 1 + random.next_below(8); n > 0; --n) {
      Tensor tensor{"t" + std::to_string(n), {}, offset};
      if (random.next_below(2) == 0) {
        tensor.traits = {static_cast<TensorRole>(random.next_below(4)), random.next_double(), 0.0,
                         random.next_below(2) == 1};
      }
      for (std::uint64_t d = 1 + random.next_below(4); d > 0; --d) {
        tensor.shape.push_back(1 + static_cast<std::int64_t>(random.next_below(64)));
      }
      offset += tensor.size();
      v.push_back(tensor);
    }
  }
  template <typename T>
  void fill(std::vector<T>& v) {
    v.resize(random.next_below(6));
    for (T& element : v) fill(element);
  }
  template <typename T>
    requires std::is_aggregate_v<T>
  void fill(T& m) {
    std::apply([&](auto&... each) { (fill(each), ...); }, fields(m));
    // What one field says about another.
    if constexpr (requires { m.protocol_version; }) m.protocol_version = kProtocolVersion;
    if constexpr (requires { m.generation; }) m.generation = static_cast<std::uint64_t>(1 + number());
    if constexpr (requires { m.last_generation; }) m.last_generation = static_cast<std::uint64_t>(number());
    if constexpr (requires { m.goes_on; }) m.goes_on = static_cast<std::uint64_t>(number());
    if constexpr (requires { m.connection; }) m.connection = std::max<std::int64_t>(m.connection, 1);
    if constexpr (requires { m.offset; }) m.offset %= std::int64_t{1} << 39;
    if constexpr (requires { m.samples; }) m.samples = std::min(m.samples, std::int64_t{1} << 32);
    if constexpr (std::is_same_v<T, Grant>) m.samples = std::max<std::int64_t>(m.samples, 1);
    if constexpr (std::is_same_v<T, Push>) {
      m.samples = m.last ? std::max<std::int64_t>(m.samples, 1) : 0;
    }
    if constexpr (std::is_same_v<T, Parameters>) {
      if (m.offset != 0) m.applied.clear();
    }
  }

  // Floats in this encoding; of kTopK some pairs, whose offsets need not be right.
  Payload payload(Encoding encoding) {
    const std::size_t floats = 1 + random.next_below(100);
    const std::size_t bytes[] = {
        4 * floats, 2 * floats, 2 * floats, 4 + floats, 8 * (1 + random.next_below(floats)), 0};
    auto values = std::make_shared<std::vector<float>>(2 * floats, 0.5F);
    for (std::size_t i = 0; encoding == Encoding::kTopK && i < values->size(); i += 2) {
      (*values)[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i / 2 + random.next_below(16) / 15));
    }
    const auto* data = reinterpret_cast<const std::byte*>(values->data());
    const bool plain = encoding == Encoding::kFp32;
    return {values, data, bytes[static_cast<std::size_t>(encoding)], encoding,
            plain ? 0 : static_cast<std::int64_t>(floats)};
  }

  LogEntry logged() {
    LogEntry event{static_cast<LogEntry::As>(random.next_below(6)), number()};
    fill(event.ends_turn);
    event.at = random.next_below(2) == 1 ? number() : -number();
    if (random.next_below(2) == 1) fill(event.node.emplace());
    if (random.next_below(2) == 1) fill(event.shard.emplace());
    return event;
  }

  // A message of the kind at `index` in Body, with the payload it needs.
  template <std::size_t I = 0>
  Message message(std::size_t index) {
    if constexpr (I + 1 < kBodies) {
      if (I != index) return message<I + 1>(index);
    }
    std::variant_alternative_t<I, AnyBody> body{};
    fill(body);
    Message out{body, {}};
    if constexpr (requires { body.offset; } && !std::is_same_v<decltype(body), FilePull>) {
      const auto encodings = std::is_same_v<decltype(body), Push>         ? 6u
                             : std::is_same_v<decltype(body), Parameters> ? 3u
                                                                          : 1u;
      out.payload = payload(static_cast<Encoding>(random.next_below(encodings)));
    }
    return out;
  }
};

}  // namespace paceline::wire
