// What is asked of etcd, and what it answers: leases, and transactions that compare before they write
// (etcd's v3 API, gRPC's `Lease` and `KV`). The bytes are in etcd_json.h, the connection in etcd_client.h.
//
// Thread: plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace paceline::server {

// A lease that ends when nothing keeps it alive for `ttl`; the keys that were put under it go with it. etcd
// may give a longer one than was asked for.
struct GrantLease {
  std::chrono::seconds ttl{0};
};
struct KeepAlive {
  std::int64_t lease = 0;
};
struct RevokeLease {
  std::int64_t lease = 0;
};

// Compares, and only if all of that holds, puts; then reads. All at one instant, and in this order: what is
// read contains what was put.
struct Txn {
  // The revision at which the key was made (kCreated), or last put (kModified); 0: there is no such key.
  enum class Of { kCreated, kModified };
  struct Compare {
    std::string key;
    Of of = Of::kCreated;
    std::int64_t revision = 0;
  };
  struct Put {
    std::string key;
    std::string value;
    std::int64_t lease = 0;  // 0: it stays
  };
  std::vector<Compare> compares;
  std::vector<Put> puts;
  std::vector<std::string> reads;
};

using EtcdRequest = std::variant<GrantLease, KeepAlive, RevokeLease, Txn>;

struct LeaseGranted {
  std::int64_t lease = 0;
  std::chrono::seconds ttl{0};
};
// ttl 0: there is no such lease any more.
struct LeaseKept {
  std::chrono::seconds ttl{0};
};
struct LeaseRevoked {};
struct EtcdKey {
  std::string value;
  std::int64_t created = 0;  // revisions, which rise with every change of anything
  std::int64_t modified = 0;
  std::int64_t lease = 0;
};
struct TxnDone {
  bool succeeded = false;
  std::vector<std::optional<EtcdKey>> read;  // as Txn::reads
};

// Of the request's kind.
using EtcdAnswer = std::variant<LeaseGranted, LeaseKept, LeaseRevoked, TxnDone>;

}  // namespace paceline::server
