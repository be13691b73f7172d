#include "common/schedule/reduction_times.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "common/assert.h"

namespace paceline::schedule {
namespace {

class TimedReplay {
 public:
  TimedReplay(const std::vector<Program>& programs, const Links& links, std::span<const double> begins)
      : links_(links) {
    for (const Program& program : programs) {
      Rank& rank = ranks_.emplace_back(program);
      for (std::uint32_t w = 0; w < program.ways.size(); ++w) {
        rank.ways.push_back({&program.ways[w]});
        for (const std::uint32_t row : program.ways[w].rows) rank.way_of[row] = w;
      }
    }
    for (std::uint32_t r = 0; r < ranks_.size(); ++r) {
      for (Way& way : ranks_[r].ways) {
        if (!way.rows->sends) continue;
        const Program& peer = programs[way.rows->peer];
        way.other_end = static_cast<std::uint32_t>(peer.way(r, false) - peer.ways.data());
      }
      const double at = begins.empty() ? 0.0 : begins[r];
      ranks_[r].ended = at;
      push(at, What::kBegin, r, 0);
    }
  }

  std::vector<double> run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      happen(event);
    }
    std::vector<double> ended;
    for (const Rank& rank : ranks_) {
      PACELINE_ASSERT(rank.left == 0, "a checked plan of which rows are left");
      ended.push_back(rank.ended);
    }
    return ended;
  }

 private:
  enum class What : std::uint8_t { kBegin, kArrived, kDone };
  struct Event {
    double at = 0.0;
    std::uint64_t order = 0;
    What what = What::kBegin;
    std::uint32_t rank = 0;
    std::uint32_t way = 0;
    bool operator>(const Event& o) const { return at != o.at ? at > o.at : order > o.order; }
  };
  struct Way {
    const Program::Way* rows = nullptr;
    std::uint32_t other_end = 0;  // of what sends: the way of the peer that receives it
    std::size_t next = 0;         // in rows->rows
    std::size_t arrived = 0;      // of them
    bool under_way = false;       // the next one has begun
  };
  struct Rank {
    explicit Rank(const Program& of)
        : program(&of), waits(of.waits), way_of(of.rows.size()), left(of.rows.size()) {}
    const Program* program;
    std::vector<std::uint32_t> waits;
    std::vector<std::uint32_t> way_of;  // of each row
    std::vector<Way> ways = {};
    std::size_t left;
    bool begun = false;
    double thread_free = 0.0;
    double out_free = 0.0;  // the link, in either direction
    double in_free = 0.0;
    double ended = 0.0;
  };

  void push(double at, What what, std::uint32_t rank, std::uint32_t way) {
    events_.push({at, order_++, what, rank, way});
  }

  void happen(const Event& event) {
    Rank& rank = ranks_[event.rank];
    if (event.what == What::kBegin) {
      rank.begun = true;
      for (std::uint32_t w = 0; w < rank.ways.size(); ++w) go_on(event.rank, w, event.at);
      return;
    }
    Way& way = rank.ways[event.way];
    if (event.what == What::kArrived) {
      ++way.arrived;
      return go_on(event.rank, event.way, event.at);
    }
    const std::uint32_t row = way.rows->rows[way.next++];
    way.under_way = false;
    rank.ended = std::max(rank.ended, event.at);
    --rank.left;
    go_on(event.rank, event.way, event.at);
    for (const std::uint32_t dependent : rank.program->dependents[row]) {
      if (--rank.waits[dependent] == 0) go_on(event.rank, rank.way_of[dependent], event.at);
    }
  }

  double per_byte(std::uint32_t rank) const {
    return links_.per_byte.size() == 1 ? links_.per_byte.front() : links_.per_byte[rank];
  }

  // Begins the next row of a way, if it can.
  void go_on(std::uint32_t index, std::uint32_t w, double now) {
    Rank& rank = ranks_[index];
    Way& way = rank.ways[w];
    if (!rank.begun || way.under_way || way.next == way.rows->rows.size()) return;
    const std::uint32_t row = way.rows->rows[way.next];
    if (rank.waits[row] > 0 || (!way.rows->sends && way.arrived <= way.next)) return;
    way.under_way = true;
    const Transfer& transfer = rank.program->rows[row];
    rank.thread_free = std::max(rank.thread_free, now) + links_.per_transfer;
    if (!way.rows->sends) {
      if (transfer.kind == TransferKind::kAdd) {
        rank.thread_free += links_.per_float * static_cast<double>(transfer.range.size());
      }
      return push(rank.thread_free, What::kDone, index, w);
    }
    Rank& peer = ranks_[way.rows->peer];
    const auto bytes = static_cast<double>(rank.program->bytes_of(transfer));
    const double sent_at = std::max(rank.out_free, rank.thread_free);
    rank.out_free = sent_at + per_byte(index) * bytes;
    peer.in_free = std::max(peer.in_free, sent_at) + per_byte(way.rows->peer) * bytes;
    push(rank.out_free, What::kDone, index, w);
    push(std::max(rank.out_free, peer.in_free) + links_.latency, What::kArrived, way.rows->peer,
         way.other_end);
  }

  const Links links_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
};

}  // namespace

std::int64_t bytes_sent(const Program& program) {
  std::int64_t bytes = 0;
  for (const Transfer& row : program.rows) {
    if (row.kind == TransferKind::kSend) bytes += static_cast<std::int64_t>(program.bytes_of(row));
  }
  return bytes;
}

std::vector<Program> programs_of(const Plan& plan, Encoding encoding) {
  std::vector<Program> programs;
  programs.reserve(plan.ranks.size());
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    programs.emplace_back(plan, rank, encoding);
  }
  return programs;
}

std::vector<double> reduction_times(const std::vector<Program>& programs, const Links& links,
                                    std::span<const double> begins) {
  return TimedReplay(programs, links, begins).run();
}

}  // namespace paceline::schedule
