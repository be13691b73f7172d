// Unanswered: why a server says nothing to a node's join, as far as can be seen from here. ZeroMQ tries to
// connect again and again without a word, so the endpoint is looked at on the side: a second after the join, and
// then every few seconds, until something comes.
//
// The look waits for the name service, which nobody can interrupt, so it has a thread of its own, which may end
// after this. Time is passed in. Thread: the I/O thread.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/instant.h"
#include "common/wire/reach.h"

namespace paceline {

class Unanswered {
 public:
  static constexpr std::chrono::seconds kFirstAfter{1};
  static constexpr std::chrono::seconds kEvery{5};
  static constexpr std::chrono::seconds kConnectWithin{3};

  struct Notice {
    std::string why;
    // Nodes and servers are started together, and this is the first look; or the server is there, and busy.
    bool may_be_usual = false;
  };

  // To be called at each heartbeat while a server that was `asked` then has said nothing since. What there is
  // to say, when it is not what was said last.
  std::optional<Notice> check(const std::string& endpoint, Ticks asked, Ticks now) {
    if (probe_) return taken(now);
    // Somebody who accepts connections is disturbed once.
    if (accepted_ || now < due_ || now - asked < kFirstAfter) return std::nullopt;
    probe_ = std::make_shared<Probe>();
    std::thread([check = probe_, endpoint] { check->put(wire::reach(endpoint, kConnectWithin)); }).detach();
    return std::nullopt;
  }

 private:
  struct Probe {
    void put(wire::Reachability what) {
      const std::lock_guard lock(mutex);
      reached = std::move(what);
    }
    std::mutex mutex;
    std::optional<wire::Reachability> reached;
  };

  std::optional<Notice> taken(Ticks now) {
    std::optional<wire::Reachability> reached;
    {
      const std::lock_guard lock(probe_->mutex);
      reached = probe_->reached;
    }
    if (!reached) return std::nullopt;
    probe_.reset();
    due_ = now + kEvery;
    accepted_ = reached->how == wire::Reach::kAccepted;
    const bool early = std::exchange(first_, false) && reached->how == wire::Reach::kRefused;
    const Notice notice{wire::in_words(*reached), early || accepted_};
    if (notice.why == last_.why && notice.may_be_usual == last_.may_be_usual) return std::nullopt;
    last_ = notice;
    return notice;
  }

  std::shared_ptr<Probe> probe_;  // while one is under way
  Ticks due_;
  bool accepted_ = false;
  bool first_ = true;
  Notice last_;
};

}  // namespace paceline
