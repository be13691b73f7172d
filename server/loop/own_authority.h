// OwnAuthority: shard 0's authority, once there is one: from the start, or once it is known what the run goes
// on from. Other shards have none.
//
// Thread: the server's loop.
#pragma once

#include <optional>
#include <utility>

#include "server/authority/authority.h"
#include "server/loop/server_setup.h"

namespace paceline::server {

class OwnAuthority {
 public:
  // All outlive this, and it all that `background` still calls.
  OwnAuthority(const ServerSetup& setup, Outbox& outbox, Background& background)
      : setup_(setup), outbox_(outbox), background_(&background) {}

  // Where what it has done goes through the log of a shard with replicas. Before begin().
  void use(Background& background) { background_ = &background; }

  // Of a run that begins: kUnavailable its files cannot be written.
  [[nodiscard]] Status begin(Ticks now) {
    PACELINE_ASSIGN_OR_RETURN(RunRecord record, RunRecord::open(setup_.config, setup_.log));
    authority_.emplace(setup_.config, std::move(record), outbox_, *background_, setup_.log, now);
    return Status::ok();
  }
  void resume(RunRecord record, Authority::Resumed from, Ticks now) {
    authority_.emplace(setup_.config, std::move(record), outbox_, *background_, setup_.log, now,
                       std::move(from));
  }

  // Before what it refers to.
  void end() { authority_.reset(); }

  explicit operator bool() const { return authority_.has_value(); }
  Authority* operator->() { return &*authority_; }
  const Authority* operator->() const { return &*authority_; }

 private:
  const ServerSetup& setup_;
  Outbox& outbox_;
  Background* background_;
  std::optional<Authority> authority_;
};

}  // namespace paceline::server
