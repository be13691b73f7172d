#include "server/replicas/leader_lease.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "common/assert.h"
#include "common/hex.h"

namespace paceline::server {
namespace {

// Of a lease: how often it is renewed, what is looked at, and what is left of it when its holder stops.
constexpr int kRenewals = 3;
constexpr int kReadsOfLease = 8;
constexpr int kMargin = 8;
// After what did not get through.
constexpr int kPauses = 16;

}  // namespace

LeaderLease::LeaderLease(std::string prefix, Incarnation self, Start start, std::chrono::seconds lease)
    : prefix_(std::move(prefix)), self_(self), lease_time_(lease), start_(start), wanted_({self}) {
  PACELINE_ASSERT(lease >= std::chrono::seconds(1), std::to_string(lease.count()) + " s of lease");
}

EtcdRequest LeaderLease::ask(Asked what, Ticks now, EtcdRequest request) {
  awaits_ = what;
  asked_at_ = now;
  return request;
}

// One question at a time: an answer that is late then never meets a question that was asked after it.
std::optional<EtcdRequest> LeaderLease::next(Ticks now) {
  if (awaits_ || now < due_) return std::nullopt;
  if (resigning_) {
    if (!lease_) return std::nullopt;
    // What is to be noted is, as long as this one's lease may stand: without it the next run of this
    // configuration would be refused.
    if (concludes_ && primary_ && now < lease_->acts_until) {
      if (must_read_) return ask(Asked::kRead, now, read());
      if (record_->complete != wanted_) return ask(Asked::kChange, now, change());
    }
    concludes_ = false;
    return ask(Asked::kEnd, now, RevokeLease{lease_->id});
  }
  if (!lease_) {
    return ask(Asked::kLease, now, GrantLease{std::chrono::duration_cast<std::chrono::seconds>(lease_time_)});
  }
  if (now >= lease_->renew_at) return ask(Asked::kRenewal, now, KeepAlive{lease_->id});
  if (must_read_) return ask(Asked::kRead, now, read());
  if (primary_ && (record_->complete != wanted_ || !unconfirmed_.empty())) {
    unconfirmed_.insert(wanted_.begin(), wanted_.end());
    unconfirmed_since_ = record_->modified;
    return ask(Asked::kChange, now, change());
  }
  if (!primary_ && may_take_over()) return ask(Asked::kTakeOver, now, take_over());
  if (!primary_ && now >= read_at_ + lease_time_ / kReadsOfLease) return ask(Asked::kRead, now, read());
  due_ = primary_ ? lease_->renew_at : std::min(lease_->renew_at, read_at_ + lease_time_ / kReadsOfLease);
  return std::nullopt;
}

bool LeaderLease::may_take_over() const {
  if (serves_ || refused_) return false;
  return start_ != Start::kFollows || record_->complete.contains(self_);
}

Txn LeaderLease::read() const { return {{}, {}, {primary_key(), record_key()}}; }

// What etcd has must be what was read: nobody primary, and the record as it was. Who was complete is so until
// this one acknowledges something, which may never come: then another one of them can still take over.
Txn LeaderLease::take_over() const {
  Txn txn = read();
  PACELINE_ASSERT(lease_->id != 0, "a key under no lease, which would stay for ever");
  Record record{record_->term + 1, start_ == Start::kFollows ? record_->complete : Members(), 0};
  record.complete.insert(self_);
  txn.compares = {{primary_key(), Txn::Of::kCreated, 0},
                  {record_key(), Txn::Of::kModified, record_->modified}};
  txn.puts = {{primary_key(), hex(self_), lease_->id}, {record_key(), text_of(record), 0}};
  return txn;
}

// As the primary that it was when it asked, or not at all: a change that is late must not leave out who is to
// take over.
Txn LeaderLease::change() const {
  Txn txn = read();
  txn.compares = {{primary_key(), Txn::Of::kCreated, created_},
                  {record_key(), Txn::Of::kModified, record_->modified}};
  txn.puts = {{record_key(), text_of({record_->term, wanted_, 0}), 0}};
  return txn;
}

void LeaderLease::answered(const Result<EtcdAnswer>& answer, Ticks now) {
  PACELINE_ASSERT(awaits_.has_value(), "an answer that was not asked for");
  due_ = now;
  if (!answer.is_ok()) return failed(answer.status(), now);
  fault_.clear();
  if (const auto* granted = std::get_if<LeaseGranted>(&*answer)) {
    on(*granted, now);
  } else if (const auto* kept = std::get_if<LeaseKept>(&*answer)) {
    on(*kept, now);
  } else if (const auto* done = std::get_if<TxnDone>(&*answer)) {
    on(*done, now);
  } else {
    lost_lease();
  }
  awaits_.reset();
}

// Nobody knows whether the request was carried out. A lease that was granted unheard ends by itself, and a
// renewal only lengthens one. What a transaction has done is looked at. One that is still under way compares
// first, so it can do nothing more behind the next one that succeeds. A lease that was not given back ends,
// too.
void LeaderLease::failed(const Status& why, Ticks now) {
  fault_ = why.message();
  const Asked what = *std::exchange(awaits_, std::nullopt);
  if (what == Asked::kTakeOver || what == Asked::kChange) must_read_ = true;
  if (what == Asked::kEnd) lost_lease();
  due_ = not_before_ = now + lease_time_ / kPauses;
}

void LeaderLease::on(const LeaseGranted& granted, Ticks) {
  lease_ = Lease{granted.lease, {}, {}};
  renewed(granted.ttl);
  must_read_ = true;
}

void LeaderLease::on(const LeaseKept& kept, Ticks) {
  kept.ttl.count() > 0 ? renewed(kept.ttl) : lost_lease();
}

// By the clock of when it was asked for: etcd has counted from later.
void LeaderLease::renewed(std::chrono::seconds ttl) {
  const std::chrono::nanoseconds whole = ttl;
  lease_->acts_until = asked_at_ + (whole - whole / kMargin);
  lease_->renew_at = asked_at_ + whole / kRenewals;
}

void LeaderLease::lost_lease() {
  lease_.reset();
  primary_ = false;
  must_read_ = true;
}

void LeaderLease::on(const TxnDone& done, Ticks now) {
  const bool sound = done.read.size() == 2;
  Result<Record> record =
      sound ? record_of(done.read[1]) : Result<Record>(data_loss("got another number of keys"));
  if (!record.is_ok()) {  // somebody else writes there
    fault_ = record_key() + ": " + record.status().message();
    must_read_ = true;
    due_ = not_before_ = now + lease_time_ / kPauses;
    return;
  }
  const std::optional<EtcdKey>& serves = done.read[0];
  read_at_ = asked_at_;
  must_read_ = false;
  record_ = *std::move(record);
  if (start_ == Start::kFollows && record_->complete.contains(self_)) was_complete_ = true;
  serves_ = serves ? std::optional(serves->value) : std::nullopt;
  // Under a lease of before it is still there and ours, and about to go.
  const bool ours = serves && serves->value == hex(self_) && serves->lease == lease_->id;
  if (ours && !primary_) {  // also where taking over went unheard
    primary_ = true;
    start_ = Start::kFollows;
    was_complete_ = true;
    term_ = record_->term;
    wanted_ = record_->complete;
    created_ = serves->created;
  } else if (!ours) {
    primary_ = false;
  }
  if (record_->modified != unconfirmed_since_) unconfirmed_.clear();
  if (start_ == Start::kReplaces && replaces_ < 0) replaces_ = record_->modified;
  const bool others = start_ == Start::kBegins     ? !record_->complete.empty()
                      : start_ == Start::kReplaces ? record_->modified != replaces_
                                                   : false;
  // Its own name may be there, where taking over went unheard and its lease ended since.
  if (!serves_ && others && !record_->complete.contains(self_)) refused_ = true;
}

bool LeaderLease::set_complete(Members members) {
  PACELINE_ASSERT(members.contains(self_), "a primary that is not complete");
  if (!is_primary()) return false;
  if (members == wanted_) return true;
  wanted_ = std::move(members);
  due_ = not_before_;
  return true;
}

// What is to be written counts at once, since it may be there at any time from then on.
LeaderLease::Members LeaderLease::must_hold() const {
  Members all = wanted_;
  if (record_) all.insert(record_->complete.begin(), record_->complete.end());
  all.insert(unconfirmed_.begin(), unconfirmed_.end());
  return all;
}

void LeaderLease::resign(Resign how) {
  resigning_ = true;
  concludes_ = how != Resign::kForNow && primary_;
  if (concludes_) wanted_ = how == Resign::kReconfigures ? Members{self_} : Members();
  due_ = not_before_;
}

std::string LeaderLease::describe(Ticks now) const {
  if (acts(now)) return "primary of term " + std::to_string(term_);
  const std::string why = fault_.empty() ? "" : ": " + fault_;
  if (refused_) {
    return "another run of this configuration has not ended, or can be gone on with (" + record_key() +
           " in etcd names its replicas; cluster.etcd_prefix sets runs of one configuration apart)" + why;
  }
  if (primary_) return "primary of term " + std::to_string(term_) + " whose lease is not renewed" + why;
  if (!lease_) return "without a lease of etcd's" + why;
  if (serves_) return "standby; process " + *serves_ + " serves" + why;
  if (record_ && record_->modified != 0 && !record_->complete.contains(self_)) {
    return "standby; nobody serves, and this replica is not complete" + why;
  }
  return "standby; nobody serves" + why;
}

// "3: 00000000000000a1 00000000000000b2"
std::string LeaderLease::text_of(const Record& record) {
  std::string text = std::to_string(record.term) + ":";
  for (const Incarnation member : record.complete) text += " " + hex(member);
  return text;
}

Result<LeaderLease::Record> LeaderLease::record_of(const std::optional<EtcdKey>& key) {
  Record record;
  if (!key) return record;
  record.modified = key->modified;
  const std::string& text = key->value;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto wrong = [&] {
    return data_loss("got \"" + text.substr(0, 64) + "\", expected TERM: INCARNATION…");
  };
  const auto term = std::from_chars(at, end, record.term);
  if (term.ec != std::errc() || term.ptr == end || *term.ptr != ':') return wrong();
  for (at = term.ptr + 1; at != end;) {
    if (*at++ != ' ') return wrong();
    Incarnation member = 0;
    const auto read = std::from_chars(at, end, member, 16);
    if (read.ec != std::errc()) return wrong();
    record.complete.insert(member);
    at = read.ptr;
  }
  return record;
}

}  // namespace paceline::server
