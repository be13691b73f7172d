#include "common/schedule/check.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/schedule/print.h"
#include "common/schedule/program.h"

namespace paceline::schedule {
namespace {

std::string row_name(const Plan& plan, std::uint32_t rank, std::size_t row) {
  return "rank " + std::to_string(rank) + ", row " + std::to_string(row) + " (" +
         to_string(plan.ranks[rank][row]) + ")";
}

Status at_row(const Plan& plan, std::uint32_t rank, std::size_t row, const std::string& what) {
  return invalid_argument(plan.name + ": " + row_name(plan, rank, row) + ": " + what);
}

Status check_form(const Plan& plan) {
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const Rows& rows = plan.ranks[rank];
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Transfer& row = rows[i];
      if (row.range.begin < 0 || row.range.size() <= 0 || row.range.end > plan.floats) {
        return at_row(plan, rank, i, "expected floats of " + std::to_string(plan.floats));
      }
      if (row.peer >= plan.ranks.size() || row.peer == rank) {
        return at_row(plan, rank, i, "expected another rank of " + std::to_string(plan.ranks.size()));
      }
      if (!std::is_sorted(row.after.begin(), row.after.end()) ||
          (!row.after.empty() && row.after.back() >= i)) {
        return at_row(plan, rank, i, "waits for a row that does not come before it");
      }
    }
  }
  return Status::ok();
}

// Every float of every rank has a last writer and readers since; the next row that conflicts with these has to
// wait for them. That is so for all pairs when it is for the neighbours in time, since done is for good.
Status check_hazards(const Plan& plan, std::uint32_t rank) {
  const Rows& rows = plan.ranks[rank];
  // A history from each key to the next one, copied where a range cuts it.
  struct History {
    std::optional<std::uint32_t> writer;
    std::vector<std::uint32_t> readers;
  };
  std::map<std::int64_t, History> pieces = {{0, {}}, {plan.floats, {}}};
  const auto cut = [&pieces](std::int64_t at) {
    const auto beyond = pieces.upper_bound(at);
    return pieces.emplace_hint(beyond, at, std::prev(beyond)->second);
  };
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const Transfer& row = rows[i];
    const auto waits_for = [&row](std::uint32_t other) {
      return std::binary_search(row.after.begin(), row.after.end(), other);
    };
    const auto begin = cut(row.range.begin);
    const auto end = row.range.end == plan.floats ? std::prev(pieces.end()) : cut(row.range.end);
    for (auto piece = begin; piece != end; ++piece) {
      History& history = piece->second;
      if (history.writer && !waits_for(*history.writer)) {
        return at_row(plan, rank, i,
                      "does not wait for row " + std::to_string(*history.writer) + ", which writes the same");
      }
      if (row.kind == TransferKind::kSend) {
        history.readers.push_back(i);
        continue;
      }
      for (const std::uint32_t reader : history.readers) {
        if (!waits_for(reader)) {
          return at_row(plan, rank, i, "overwrites what row " + std::to_string(reader) + " still reads");
        }
      }
      history = {i, {}};
    }
  }
  return Status::ok();
}

// The floats between two neighbouring ends of any range are one piece; of each rank's piece, whose are in it.
class Replay {
 public:
  explicit Replay(const Plan& plan) : plan_(plan), words_((plan.ranks.size() + 63) / 64) {
    for (const Rows& rows : plan.ranks) {
      for (const Transfer& row : rows) ends_.insert(ends_.end(), {row.range.begin, row.range.end});
    }
    ends_.insert(ends_.end(), {0, plan.floats});
    std::sort(ends_.begin(), ends_.end());
    ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
    sets_.resize(plan.ranks.size() * pieces() * words_);
    for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
      for (std::size_t piece = 0; piece < pieces(); ++piece) set(rank, piece)[rank / 64] |= bit(rank);
      ranks_.emplace_back(Program(plan, rank));
    }
    for (std::uint32_t from = 0; from < plan.ranks.size(); ++from) {
      for (std::uint32_t way = 0; way < ranks_[from].program.ways.size(); ++way) meet(from, way);
    }
  }

  Status run() {
    for (std::uint32_t pair = 0; pair < pairs_.size(); ++pair) {
      ready_.push_back(pair);
      while (!ready_.empty()) {
        const std::uint32_t next = ready_.back();
        ready_.pop_back();
        PACELINE_RETURN_IF_ERROR(advance(pairs_[next]));
      }
    }
    return check_end();
  }

 private:
  struct Rank {
    explicit Rank(Program of)
        : program(std::move(of)),
          waits(program.waits),
          done(program.rows.size()),
          pair_of(program.rows.size()) {}
    Program program;
    std::vector<std::uint32_t> waits;
    std::vector<bool> done;
    std::vector<std::optional<std::uint32_t>> pair_of;  // of each row; none: its peer has no row for it
  };
  // What one rank sends to another, and what that one expects, in their order.
  struct Pair {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    const Program::Way* sends = nullptr;
    const Program::Way* receives = nullptr;
    std::size_t next = 0;
  };

  std::size_t pieces() const { return ends_.size() - 1; }
  static std::uint64_t bit(std::uint32_t rank) { return std::uint64_t{1} << (rank % 64); }
  std::uint64_t* set(std::uint32_t rank, std::size_t piece) {
    return &sets_[(rank * pieces() + piece) * words_];
  }
  std::size_t piece_at(std::int64_t end) const {
    return static_cast<std::size_t>(std::lower_bound(ends_.begin(), ends_.end(), end) - ends_.begin());
  }

  void meet(std::uint32_t from, std::uint32_t way) {
    const Program::Way& sends = ranks_[from].program.ways[way];
    if (!sends.sends) return;
    const Program::Way* const receives = ranks_[sends.peer].program.way(from, false);
    if (receives == nullptr) return;
    const auto pair = static_cast<std::uint32_t>(pairs_.size());
    pairs_.push_back({from, sends.peer, &sends, receives});
    for (const std::uint32_t row : sends.rows) ranks_[from].pair_of[row] = pair;
    for (const std::uint32_t row : receives->rows) ranks_[sends.peer].pair_of[row] = pair;
  }

  // All that can go from one to the other goes.
  Status advance(Pair& pair) {
    while (pair.next < std::min(pair.sends->rows.size(), pair.receives->rows.size())) {
      const std::uint32_t sent = pair.sends->rows[pair.next];
      const std::uint32_t received = pair.receives->rows[pair.next];
      if (ranks_[pair.from].waits[sent] > 0 || ranks_[pair.to].waits[received] > 0) break;
      PACELINE_RETURN_IF_ERROR(transfer(pair.from, sent, pair.to, received));
      ++pair.next;
      finish(ranks_[pair.from], sent);
      finish(ranks_[pair.to], received);
    }
    return Status::ok();
  }

  void finish(Rank& rank, std::uint32_t row) {
    rank.done[row] = true;
    for (const std::uint32_t dependent : rank.program.dependents[row]) {
      if (--rank.waits[dependent] == 0 && rank.pair_of[dependent]) ready_.push_back(*rank.pair_of[dependent]);
    }
  }

  Status transfer(std::uint32_t from, std::uint32_t sent, std::uint32_t to, std::uint32_t received) {
    const Transfer& row = plan_.ranks[to][received];
    if (row.range != plan_.ranks[from][sent].range) {
      return at_row(plan_, to, received, "what comes is " + row_name(plan_, from, sent));
    }
    const std::size_t end = piece_at(row.range.end);
    for (std::size_t piece = piece_at(row.range.begin); piece < end; ++piece) {
      const std::uint64_t* const source = set(from, piece);
      std::uint64_t* const target = set(to, piece);
      for (std::size_t w = 0; w < words_; ++w) {
        if (row.kind == TransferKind::kAdd && (source[w] & target[w]) != 0) {
          return at_row(plan_, to, received, "adds a rank's floats a second time");
        }
        if (row.kind == TransferKind::kReceive && (target[w] & ~source[w]) != 0) {
          return at_row(plan_, to, received, "overwrites a rank's floats that are not in what comes");
        }
        target[w] |= source[w];
      }
    }
    return Status::ok();
  }

  Status check_end() {
    for (std::uint32_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      const std::vector<bool>& done = ranks_[rank].done;
      const auto stuck = std::find(done.begin(), done.end(), false);
      if (stuck != done.end()) {
        return at_row(plan_, rank, static_cast<std::size_t>(stuck - done.begin()), "never comes to pass");
      }
    }
    for (std::uint32_t rank = 0; rank < plan_.ranks.size(); ++rank) {
      for (std::size_t piece = 0; piece < pieces(); ++piece) {
        for (std::uint32_t from = 0; from < plan_.ranks.size(); ++from) {
          if ((set(rank, piece)[from / 64] & bit(from)) != 0) continue;
          return invalid_argument(plan_.name + ": rank " + std::to_string(rank) +
                                  " ends without the floats " + std::to_string(ends_[piece]) + ".." +
                                  std::to_string(ends_[piece + 1]) + " of rank " + std::to_string(from));
        }
      }
    }
    return Status::ok();
  }

  const Plan& plan_;
  const std::size_t words_;
  std::vector<std::int64_t> ends_;
  std::vector<std::uint64_t> sets_;
  std::vector<Rank> ranks_;
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> ready_;  // pairs of which rows may have become so
};

}  // namespace

Status check(const Plan& plan) {
  PACELINE_RETURN_IF_ERROR(check_form(plan));
  if (plan.floats == 0) return Status::ok();  // there are no rows, then
  for (std::uint32_t rank = 0; rank < plan.ranks.size(); ++rank) {
    PACELINE_RETURN_IF_ERROR(check_hazards(plan, rank));
  }
  return Replay(plan).run();
}

}  // namespace paceline::schedule
