// The pulls in flight of a node: who waits for which, which frames of each answer are there, and where a
// whole slice goes. One pull asks every shard; threads that need the same share it (the join rule is
// common/cache's).
//
// A slice is shown to nobody before its last frame: it is installed in the process cache whole, and only if
// it is newer than what is there (a late answer does no harm). An exact pull, for the evaluator, keeps its
// slices to itself.
//
// What a server lends (common/wire/sharing.h) is copied into memory of our own as it arrives, since the
// process cache would keep a whole state of the server alive. Where there is one training thread, and it
// waits for the pull or is about to, the thread itself makes that copy as the piece comes. Nobody else will
// want a piece that has been copied in so. It is let go of, whatever memory it lies in, and the slice in the process
// cache has a hole in its place. Where a device makes the copy by itself (common/wire/pin.h), the copy goes
// on while the next pieces are copied in, and is waited for before the thread waits for anything else or goes on.
//
// What comes over a socket stays where the transport has received it. Where there is a memory that a device
// reads by itself, it is copied there as it arrives: by the I/O thread, while the training threads compute.
//
// Where parameters come in fragments (exchange.fragments) a pull is of one of them, and asks the shards that have some
// of it.
//
// Thread: any, but for accept(). Memory: one slice per pull and shard in flight, received into the
// transport's own buffers, or decoded or copied into recycled ones of our own, once for all threads; with one
// thread less what has been copied in.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/log/stall_log.h"
#include "common/params/blocks.h"
#include "common/pause.h"
#include "common/status.h"
#include "common/wire/messages.h"
#include "worker/cache/process_cache.h"
#include "worker/client/shard_part.h"
#include "worker/exchange/exchange.h"

namespace paceline {

class Pulls {
 public:
  static constexpr std::size_t kFinishedKept = 64;

  // `threads`: of this node; how many applied clocks a slice must carry. `encoding`: of all answers but exact
  // ones, which are float32. `memory`: of a device, where all that it is to read is put as it comes, but what
  // is copied in from where a server lends it; null: what is decoded or copied lies on the heap. `slices`: what the
  // cache's slices are, whose own ranges are the cache's; empty: whole shards.
  Pulls(ProcessCache& cache, std::uint32_t threads, Encoding encoding = Encoding::kFp32,
        std::shared_ptr<std::pmr::memory_resource> memory = nullptr, std::vector<CacheSlice> slices = {});

  // What to send for a request: one Pull per shard, in shard order; empty when another thread's pull serves
  // it.
  struct Request {
    Ticket ticket = 0;
    std::vector<wire::Pull> pulls;
    std::vector<ShardId> shards;  // to whom each
  };
  // Parameters of `min_version` or newer, for the process cache. `now`: what how long answers usually take is
  // counted from. `fragment`: of these.
  Request request(Version min_version, Ticks now, std::int64_t fragment = 0);
  // The same, of a thread that waits for it next, with at most a pass or two over its gradient before
  // (exchange.h, request_early()).
  Request request_early(Version min_version, Ticks now);
  // Exactly the retained `version`, for collect().
  Request request_exact(Version version, Ticks now);

  // A frame of an answer from `shard`, decoded if it needs that. Thread: the client's I/O thread. Errors:
  // kInvalidArgument when it does not continue its answer (wrong encoding, offset, length, revision, version
  // or shard, or a request that was never made): the shard and we disagree.
  Status accept(ShardId shard, const wire::Parameters& piece, wire::Payload payload, Ticks now);
  Status accept(ShardId shard, const wire::Unchanged& unchanged, Ticks now);

  // The connection to `shard` broke. Nothing of what it has lent is read any more once this says true: what
  // is here of whole answers is copied, what of others is forgotten. False while a thread is copying in a piece
  // of it: to be asked again soon. Thread: as accept().
  bool part_with(ShardId shard);
  // That the pulls of this request leave now. Thread: as accept().
  void asked(Ticket ticket);
  // What is to be asked of it again over another connection: all that was, and that it has not answered
  // whole. After part_with(). Thread: as accept().
  std::vector<wire::Pull> unanswered(ShardId shard);

  // kDeadlineExceeded, naming pull and shard, when nothing more of an answer has come for longer than
  // `allowed` although the version is known to exist: until then the servers hold the pull. To be called now
  // and then: a pull waits from the first call that sees it.
  Status check(Ticks now, std::chrono::nanoseconds allowed);
  // Which parameters do not come, and from whom: one for each pull that a shard has not answered whole.
  // `usual`: how long that usually takes, while no answer has shown it.
  std::vector<Wait> waits(std::chrono::nanoseconds usual) const;
  // This process itself did not run for that long: nobody else is to blame for the silence.
  void discount_pause(const Pause& pause);

  // `shard` cannot answer the exact pull it has not answered yet (a node has one at a time): it counts as its
  // answer. False: it has none.
  bool refuse_exact(ShardId shard, Status why);

  // Waits until every shard has answered, copying in on the way what comes; returns when the last one had
  // (Ticks() when that was long ago: more than kFinishedKept requests before). Nothing of it is lent by then.
  Result<Ticks> await(Ticket ticket, ParameterSink& sink);
  // The same, but nullopt as soon as `unneeded` says so. It is asked behind a lock, at first and whenever
  // something has changed, which wake() says of what is not a pull.
  Result<std::optional<Ticks>> await_unless(const std::function<bool()>& unneeded, Ticket ticket,
                                            ParameterSink& sink);
  void wake();
  // The same without waiting; nullopt while a shard has not.
  std::optional<Ticks> answered(Ticket ticket) const;
  // Whether await() would find all that it waits for, or that it was closed.
  bool is_over(Ticket ticket) const;
  // As await() for an exact pull, and hands over what arrived. Errors: also what a shard refused it with.
  Result<Snapshot> collect(Ticket ticket);

  // Releases every waiter, now and later, with `why` (not OK). The first close counts.
  void close(Status why);

 private:
  struct Answer {
    std::shared_ptr<Slice> slice;     // being assembled; null before the first frame
    std::shared_ptr<BlockRef> block;  // what its pieces point into, where they were decoded or copied there
    std::int64_t received = 0;        // floats
    bool whole = false;
  };
  struct Pull {
    Version min_version;
    bool exact = false;
    std::int64_t fragment = 0;
    std::vector<Answer> answers;  // per shard; whole where it is not asked
    std::size_t open = 0;         // shards that have not answered whole
    Status refused;               // by the first shard that did, if one did
    bool asked = false;           // or about to be, by whoever asks
    bool for_sink = false;        // the node's only thread waits for it, or does so next
    Ticks asked_at;
    std::optional<Ticks> silent_since;  // as check() first saw it, or the last frame of an answer
  };

  // A piece that has come, of those not counted in `taken` (per shard), which then counts it.
  struct Arrived {
    ShardId shard;
    ShardId number;  // the slice's, in the caches
    std::shared_ptr<Slice> slice;
    std::size_t place = 0;  // among its pieces
    SlicePiece piece;
  };
  // What a thread has taken of an answer; one that is given anew is taken from its begin.
  struct Taken {
    std::shared_ptr<const Slice> of;
    std::size_t pieces = 0;
  };
  std::optional<Arrived> arrived(const Pull& pull, std::vector<Taken>& taken) const;
  Request request(Version min_version, bool for_sink, std::int64_t fragment, Ticks now);
  // What a thread copies in at a stretch: lent pieces, by shard, that may still be read.
  using InSink = std::vector<int>;
  Result<std::optional<Ticks>> await_unless(const std::function<bool()>& unneeded, Ticket ticket,
                                            ParameterSink& sink, InSink& in_sink,
                                            std::unique_lock<std::mutex>& lock);
  void copy_in(Arrived arrived, ParameterSink& sink, InSink& in_sink, std::unique_lock<std::mutex>& lock);
  bool let_go(ParameterSink& sink, InSink& in_sink, std::unique_lock<std::mutex>& lock);
  void give_up_copying_in(Pull& pull, std::unique_lock<std::mutex>& lock);
  Ticks finished_at(Ticket ticket) const;
  Request start(Version version, bool exact, std::int64_t fragment, Ticks now);
  // Of the slice of this number, in a block of its own size.
  std::span<float> place_of(Answer& answer, ShardId number, const wire::Parameters& piece,
                            const wire::Payload& payload);
  Result<wire::Payload> decoded(Answer& answer, ShardId number, const wire::Parameters& piece,
                                const wire::Payload& payload);
  wire::Payload copied(Answer& answer, ShardId number, const wire::Parameters& piece,
                       const wire::Payload& payload);
  // Who waits is to be told.
  void finish(Ticket ticket, Pull& pull, Answer& answer, Ticks now);
  Result<Pull*> find(ShardId from, ShardId named, std::uint64_t request);

  // What an answer is to bring: of the node's own vectors, or exactly of the whole layout.
  Range range_of(const Pull& pull, ShardId shard) const {
    const ShardPart& part = slices_[number_of(pull, shard)->value].part;
    return pull.exact ? part.whole : part.own;
  }
  // The slice that a pull brings of a shard, or, of an exact one, one of that shard; none where it is not asked.
  std::optional<ShardId> number_of(const Pull& pull, ShardId shard) const;
  wire::Pull pull_of(Ticket ticket, const Pull& pull, ShardId shard) const;

  ProcessCache& cache_;
  const std::vector<CacheSlice> slices_;
  const std::uint32_t shards_;
  std::uint32_t threads_;
  const Encoding encoding_;
  const bool copies_to_blocks_;
  std::vector<BlockPool> blocks_;  // by slice; made as answers need them
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Ticket, Pull> pulls_;
  InSink lent_to_sink_;               // what that is of the thread that copies in
  std::map<Ticket, Ticks> finished_;  // the latest kFinishedKept, and when
  DurationBaseline answers_;          // that bring parameters, from the request to the last frame
  Ticket next_ = 1;
  Status closed_;
};

}  // namespace paceline
