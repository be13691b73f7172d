// An etcd of one member in memory: keys, revisions, leases by its own clock. Carries out requests one after
// another, as the real one does (tests/process/etcd_test.cc asks both the same).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "common/instant.h"
#include "common/status.h"
#include "server/replicas/etcd.h"

namespace paceline::server {

class EtcdModel {
 public:
  // Errors: kUnavailable it puts a key under a lease that is not there; then nothing of it is done.
  Result<EtcdAnswer> carry_out(const EtcdRequest& request, Ticks now) {
    expire(now);
    return std::visit([&](const auto& asked) { return Result<EtcdAnswer>(on(asked, now)); }, request);
  }
  std::optional<EtcdKey> read(const std::string& key, Ticks now) {
    expire(now);
    return read(key);
  }
  void put(const std::string& key, const std::string& value) { put_at(++revision_, {key, value, 0}); }

 private:
  struct Lease {
    std::chrono::seconds ttl{0};
    Ticks ends;
  };

  EtcdAnswer on(const GrantLease& asked, Ticks now) {
    leases_[++last_lease_] = {asked.ttl, now + asked.ttl};
    return LeaseGranted{last_lease_, asked.ttl};
  }
  EtcdAnswer on(const KeepAlive& asked, Ticks now) {
    const auto found = leases_.find(asked.lease);
    if (found == leases_.end()) return LeaseKept{};
    found->second.ends = now + found->second.ttl;
    return LeaseKept{found->second.ttl};
  }
  EtcdAnswer on(const RevokeLease& asked, Ticks) {
    end(asked.lease);
    return LeaseRevoked{};
  }
  Result<EtcdAnswer> on(const Txn& txn, Ticks) {
    TxnDone done;
    done.succeeded = true;
    for (const Txn::Compare& compare : txn.compares) {
      const std::optional<EtcdKey> key = read(compare.key);
      const std::int64_t revision = !key ? 0 : compare.of == Txn::Of::kCreated ? key->created : key->modified;
      if (revision != compare.revision) done.succeeded = false;
    }
    for (const Txn::Put& put : txn.puts) {
      const bool no_lease = put.lease != 0 && !leases_.contains(put.lease);
      if (done.succeeded && no_lease) return unavailable("etcdserver: requested lease not found");
    }
    if (done.succeeded && !txn.puts.empty()) {
      ++revision_;
      for (const Txn::Put& put : txn.puts) put_at(revision_, put);
    }
    for (const std::string& key : txn.reads) done.read.push_back(read(key));
    return EtcdAnswer(done);
  }

  std::optional<EtcdKey> read(const std::string& key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? std::nullopt : std::optional(found->second);
  }
  void put_at(std::int64_t revision, const Txn::Put& put) {
    const std::optional<EtcdKey> before = read(put.key);
    keys_[put.key] = {put.value, before ? before->created : revision, revision, put.lease};
  }
  void end(std::int64_t lease) {
    leases_.erase(lease);
    if (std::erase_if(keys_, [&](const auto& key) { return key.second.lease == lease; }) > 0) ++revision_;
  }
  void expire(Ticks now) {
    for (auto lease = leases_.begin(); lease != leases_.end();) {
      const auto [id, about] = *lease++;
      if (now >= about.ends) end(id);
    }
  }

  std::map<std::string, EtcdKey> keys_;
  std::map<std::int64_t, Lease> leases_;
  std::int64_t revision_ = 0;
  std::int64_t last_lease_ = 0;
};

}  // namespace paceline::server
