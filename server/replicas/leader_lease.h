// LeaderLease: which of a shard's replicas serves it. etcd decides, by a lease and by comparing before it writes;
// this is what one replica asks of it, and what it may do meanwhile. Pure: requests out, answers and time in.
//
// Two keys for each shard:
//
//   PREFIX/primary   "incarnation" of who serves, put under its lease: gone when that ends
//   PREFIX/record    "term: incarnations": how many primaries there have been, and who is complete, i.e.
//                    holds all that was ever acknowledged. It stays; with nobody, once the run is over.
//
//   standby   reads both every eighth of a lease. Where nobody is primary and it is complete, it writes both,
//             if nobody has changed either since: it is primary of the next term. Who else was complete it
//             leaves so, until it has something to acknowledge that they lack (set_complete())
//   primary   renews its lease every third of it. It acts until an eighth of the lease is left, counted from
//             when the renewal that was answered had been SENT, so never after etcd has given up the lease,
//             and another one begins only after that. It writes who is complete when that changes
//
// So never do two replicas act at a time, on two conditions. No clock runs an eighth faster or slower than
// another: the steady clock does not count a machine's suspension, so after one a primary there may act for
// as long as was left. And etcd does not end a lease before its time, as it may without the fix of its issue
// 15247, where an old leader stood still.
//
// Whatever clocks and leases do, nothing acknowledged is lost. What a primary acknowledges, everybody who is
// complete holds first (must_hold()). Only one that is complete takes over. And a primary changes who is
// complete by the same comparison, which fails once another one has taken over.
//
// Worked example: a lease of 8 s, renewed by a request sent at 100.0, answered at 100.9. It acts until 107.0.
// At 107.5 it stands still (SIGSTOP); the lease ends between 108.0 and 108.9, and at the next read of another
// complete one, at 109.8 at the latest, that takes over: term 2. When the first goes on, acts() is false, and
// the next answer says that its lease is gone. It is a standby, and complete until the second has
// acknowledged something.
//
// After Gray and Cheriton, Leases (SOSP 1989), section 2 (a term by the holder's clock, shortened by what
// clocks and messages may be off), and Kafka's in-sync replicas (KIP-101 and its design document,
// "Replication") for who may take over.
//
// Thread: one at a time (the server's loop).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/instant.h"
#include "common/status.h"
#include "server/replicas/etcd.h"

namespace paceline::server {

class LeaderLease {
 public:
  using Incarnation = std::uint64_t;  // of a process (common/incarnation.h)
  using Members = std::set<Incarnation>;

  // How this replica comes to the shard:
  //   kBegins     as a new run's first replica, which has all there is. It is_refused() where the record
  //               names one that is complete: that run has not ended, or another replica can go on with it
  //   kReplaces   likewise, but in the place of such a run, unless that run shows that it lives
  //   kFollows    it takes over only once it is complete
  enum class Start { kBegins, kReplaces, kFollows };

  // `lease` >= 1 s; the other replicas' is the same. `prefix` is this run's and this shard's alone.
  LeaderLease(std::string prefix, Incarnation self, Start start, std::chrono::seconds lease);

  // What to ask etcd now; nothing while an answer is awaited, or where nothing is due. To be called again at
  // due(), and after each answer. Whoever asks gives up after patience(), and says so with a Status: whether
  // the request was carried out is then not known, and is found out.
  std::optional<EtcdRequest> next(Ticks now);
  void answered(const Result<EtcdAnswer>& answer, Ticks now);
  Ticks due() const { return due_; }
  // Whether an answer is awaited: until it has come there is nothing to ask.
  bool awaits() const { return awaits_.has_value(); }
  std::chrono::nanoseconds patience() const { return lease_time_ / 8; }

  // Whether this replica serves the shard: it may acknowledge, and say what it has decided. To be asked right
  // before each time it does.
  bool acts(Ticks now) const { return is_primary() && lease_ && now < lease_->acts_until; }
  // Its lease has not ended as far as is known, though it may not act any more: a renewal that gets through
  // in time lets it go on in the same term.
  bool is_primary() const { return primary_ && !resigning_; }
  // It cannot begin: as last read another run is there. Final.
  bool is_refused() const { return refused_; }
  // As last read nobody serves.
  bool nobody_serves() const { return record_.has_value() && !must_read_ && !serves_; }
  // As last read another one serves.
  bool another_serves() const { return !must_read_ && serves_ && !primary_; }
  // Of this primary; 0 of one that has never been. A later one is higher.
  std::uint64_t term() const { return term_; }

  // It has once been read to be complete.
  bool was_complete() const { return was_complete_; }
  // As last read, this replica lacks something that was acknowledged, though it has been complete: it can
  // take over no more.
  bool is_left_out() const { return was_complete_ && record_ && !record_->complete.contains(self_); }

  // A primary's: those who hold all that has been acknowledged, itself among them. Whoever is added must hold
  // it, and whatever is acknowledged from now on; whoever is left out need not, once must_hold() is without
  // it. False, and nothing is changed, where it is not primary; who becomes so says it anew.
  bool set_complete(Members members);
  // Whether the record is known to have `replica` as complete, and is to.
  bool has_complete(Incarnation replica) const {
    return record_ && record_->complete.contains(replica) && wanted_.contains(replica);
  }
  // Who must hold something before a primary acknowledges it: all that the record may have as complete.
  Members must_hold() const;

  // Gives the lease back, so that nobody waits for its end: this replica is to act no more. kForGood: nobody
  // is to, the run is over; that is noted first. kReconfigures: this server begins anew, and nobody else is to
  // take over meanwhile; that is noted first, too.
  enum class Resign { kForNow, kForGood, kReconfigures };
  void resign(Resign how = Resign::kForNow);
  bool resigned() const { return resigning_ && !lease_ && !awaits_; }

  // As last read the run is over: nobody is to serve any more.
  bool is_concluded() const { return record_ && record_->modified != 0 && record_->complete.empty(); }

  // For the log: what stands in the way, or who serves.
  std::string describe(Ticks now) const;

 private:
  struct Record {
    std::uint64_t term = 0;
    Members complete;
    std::int64_t modified = 0;  // 0: there is none
  };
  enum class Asked { kLease, kRenewal, kEnd, kRead, kTakeOver, kChange };
  struct Lease {
    std::int64_t id = 0;
    Ticks acts_until;
    Ticks renew_at;
  };

  EtcdRequest ask(Asked what, Ticks now, EtcdRequest request);
  bool may_take_over() const;
  Txn read() const;
  Txn take_over() const;
  Txn change() const;
  std::string primary_key() const { return prefix_ + "/primary"; }
  std::string record_key() const { return prefix_ + "/record"; }
  void failed(const Status& why, Ticks now);
  void on(const LeaseGranted& granted, Ticks now);
  void on(const LeaseKept& kept, Ticks now);
  void on(const TxnDone& done, Ticks now);
  void renewed(std::chrono::seconds ttl);
  void lost_lease();
  static Result<Record> record_of(const std::optional<EtcdKey>& key);
  static std::string text_of(const Record& record);

  const std::string prefix_;
  const Incarnation self_;
  const std::chrono::nanoseconds lease_time_;
  Start start_;  // kFollows once it has been primary
  bool refused_ = false;
  std::int64_t replaces_ = -1;  // kReplaces: that revision of the record

  std::optional<Asked> awaits_;
  Ticks asked_at_;
  Ticks due_;         // when there is something to ask
  Ticks not_before_;  // after what did not get through
  std::optional<Lease> lease_;
  bool primary_ = false;
  std::uint64_t term_ = 0;
  std::optional<std::string> serves_;  // who is primary, as last read
  std::optional<Record> record_;       // as last read or written; none: not known
  bool was_complete_ = false;          // as once read
  Members wanted_;                     // a primary's: who is to be complete
  // Whom changes of that revision of the record named that were not heard to be carried out: they may be yet,
  // until it is another revision.
  Members unconfirmed_;
  std::int64_t unconfirmed_since_ = 0;
  std::int64_t created_ = 0;  // the revision at which its primary key was
  Ticks read_at_;
  bool must_read_ = true;  // what etcd has is not known
  bool resigning_ = false;
  bool concludes_ = false;  // is to note who may take over from here on
  std::string fault_;       // the last one, until something succeeds
};

}  // namespace paceline::server
