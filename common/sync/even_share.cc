#include "common/sync/even_share.h"

#include <algorithm>

#include "common/assert.h"

namespace paceline::sync {

EvenShare::EvenShare(std::uint32_t workers, std::int64_t total_iterations)
    : EvenShare(workers, {{0, total_iterations}}, Clock(0)) {}

EvenShare::EvenShare(std::uint32_t workers, const IterationRanges& left, Clock begin)
    : begun_(begin), there_(workers) {
  for (const IterationRange& range : left) {
    list_.push_back({length_, range.first, 1, range.count});
    length_ += range.count;
  }
}

void EvenShare::join(Rank worker) {
  PACELINE_ASSERT(!there_[worker.value], "rank " + std::to_string(worker.value) + " is there already");
  there_[worker.value] = true;
  ++count_;
  overtaken_ = changed_ = true;
  // What it had in plans before was left undone, and is others'.
  if (begun_ > Clock(0)) begin_at(worker, begun_);
}

void EvenShare::begin_at(Rank worker, Clock clock) {
  if (since_.empty()) since_.resize(there_.size());
  since_[worker.value] = clock;
}

// With nothing left for it there is nothing left at any later place either: the plan stays as it is.
void EvenShare::leave(Rank worker) {
  there_[worker.value] = false;
  --count_;
  changed_ = true;
}

void EvenShare::lose(Rank worker, Clock clock, std::optional<std::int64_t> begun,
                     std::optional<std::int64_t> ahead) {
  for (const std::optional<std::int64_t>& taken : {begun, ahead}) {
    if (!taken) continue;
    append(*taken);
    clock = clock.next();
  }
  auto left = next_own(worker, clock);
  for (; left; left = next_own(worker, left->next())) append(at(*place(worker, *left)));
  leave(worker);
  overtaken_ = true;
}

bool EvenShare::done(Rank worker, Clock clock) {
  PACELINE_ASSERT(there_[worker.value] && clock <= begun_,
                  "rank " + std::to_string(worker.value) + " at clock " + to_string(clock));
  if (clock == begun_ && overtaken_) renew();
  if (place(worker, clock)) return false;
  return clock == begun_ || (next_ == length_ && !next_own(worker, clock.next()));
}

std::int64_t EvenShare::take(Rank worker, Clock clock) {
  PACELINE_ASSERT(clock < begun_ || (clock == begun_ && !overtaken_),
                  "nobody asked for clock " + to_string(clock));
  const std::optional<std::int64_t> own = place(worker, clock);
  if (own) {
    if (clock < begun_) return at(*own);
    const Plan& plan = plans_.back();
    begun_ = clock.next();
    next_ = std::min(plan.end, plan.base + (begun_ - plan.first).value * plan.workers);
    return at(*own);
  }
  if (next_ < length_) {
    overtaken_ = true;
    return at(next_++);
  }
  const std::optional<Clock> later = next_own(worker, clock.next());
  PACELINE_ASSERT(later, "no iteration is left to take");
  const std::int64_t early = at(*place(worker, *later));
  begin_at(worker, later->next());
  return early;
}

// A plan of those who are there, from the first clock that nobody has begun.
void EvenShare::renew() {
  if (changed_) {
    ++changes_;
    Places places(there_.size(), -1);
    std::int32_t workers = 0;
    for (std::size_t r = 0; r < places.size(); ++r) {
      if (there_[r]) places[r] = workers++;
    }
    const bool all = workers == std::ssize(places);
    places_ = all ? nullptr : std::make_shared<const Places>(std::move(places));
  }
  if (!plans_.empty() && plans_.back().first == begun_) plans_.pop_back();
  plans_.push_back({begun_, next_, length_, count_, places_});
  overtaken_ = changed_ = false;
}

EvenShare::Newest EvenShare::newest() const {
  Newest newest{changes_, begun_, 0, {}};
  if (plans_.empty()) return newest;
  newest.first = plans_.back().first;
  newest.base = plans_.back().base;
  for (std::size_t r = 0; r < there_.size(); ++r) {
    const Places* const places = plans_.back().places.get();
    if (places == nullptr || (*places)[r] >= 0) newest.workers.emplace_back(static_cast<std::uint32_t>(r));
  }
  return newest;
}

std::deque<EvenShare::Plan>::const_iterator EvenShare::plan_for(Clock clock) const {
  const auto after = std::upper_bound(plans_.begin(), plans_.end(), clock,
                                      [](Clock c, const Plan& plan) { return c < plan.first; });
  PACELINE_ASSERT(after != plans_.begin(), "clock " + to_string(clock) + " is forgotten");
  return std::prev(after);
}

// Of the plan that holds for `clock`, where it has one for `worker`.
std::optional<std::int64_t> EvenShare::place(Rank worker, Clock clock) const {
  return place(*plan_for(clock), worker, clock);
}

std::optional<std::int64_t> EvenShare::place(const Plan& plan, Rank worker, Clock clock) const {
  if (!since_.empty() && clock < since_[worker.value]) return std::nullopt;
  const std::int64_t own = plan.places ? (*plan.places)[worker.value] : std::int64_t{worker.value};
  if (own < 0) return std::nullopt;
  const std::int64_t place = plan.base + (clock - plan.first).value * plan.workers + own;
  return place < plan.end ? std::optional(place) : std::nullopt;
}

// The first clock from this one on, of those begun, of which it has an iteration. No two plans have the same
// first clock, so that the plan for a clock is the one for the clock before, or the next.
std::optional<Clock> EvenShare::next_own(Rank worker, Clock from) const {
  Clock own = since_.empty() ? from : std::max(from, since_[worker.value]);
  if (own >= begun_) return std::nullopt;
  for (auto plan = plan_for(own); own < begun_; own = own.next()) {
    if (const auto next = std::next(plan); next != plans_.end() && next->first <= own) plan = next;
    if (place(*plan, worker, own)) return own;
  }
  return std::nullopt;
}

std::int64_t EvenShare::at(std::int64_t place) const {
  const auto after = std::upper_bound(list_.begin(), list_.end(), place,
                                      [](std::int64_t p, const Piece& piece) { return p < piece.place; });
  PACELINE_ASSERT(after != list_.begin(), "place " + std::to_string(place) + " is forgotten");
  const Piece& piece = *std::prev(after);
  return piece.first + (place - piece.place) * piece.stride;
}

// One worker's iterations of one plan lie as far from each other as the plan has workers: one piece.
void EvenShare::append(std::int64_t iteration) {
  if (!list_.empty()) {
    Piece& last = list_.back();
    if (last.count == 1) last.stride = iteration - last.first;
    if (last.first + last.count * last.stride == iteration) {
      ++last.count;
      ++length_;
      return;
    }
  }
  list_.push_back({length_++, iteration, 0, 1});
}

void EvenShare::forget_below(Clock clock) {
  if (plans_.empty()) return;  // nothing has been given
  while (plans_.size() > 1 && plans_[1].first <= clock) plans_.pop_front();
  while (!list_.empty() && list_.front().place + list_.front().count <= plans_.front().base) {
    list_.pop_front();
  }
}

void EvenShare::add_not_given(IterationRanges& left) const {
  for (const Piece& piece : list_) {
    const std::int64_t given = std::clamp<std::int64_t>(next_ - piece.place, 0, piece.count);
    if (piece.stride == 1) {
      left.push_back({piece.first + given, piece.count - given});
      continue;
    }
    for (std::int64_t i = given; i < piece.count; ++i) left.push_back({piece.first + i * piece.stride, 1});
  }
}

void EvenShare::add_given(Rank worker, Clock from, IterationRanges& left) const {
  for (auto own = next_own(worker, from); own; own = next_own(worker, own->next())) {
    left.push_back({at(*place(worker, *own)), 1});
  }
}

}  // namespace paceline::sync
