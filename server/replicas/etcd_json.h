// The bytes of etcd.h's requests and answers: JSON over HTTP, as etcd's own gateway to its v3 API speaks it
// (https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway). Keys and values are base64, numbers of 64 bits
// strings, and what is zero or empty is left out of an answer.
//
// Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "common/status.h"
#include "server/replicas/etcd.h"

namespace paceline::server {

// What is posted, and where: "/v3/kv/txn".
struct EtcdPost {
  std::string target;
  std::string body;
};
EtcdPost post_of(const EtcdRequest& request);

// The answer to `request` that came with HTTP's `code`. Errors: kUnavailable etcd says that it cannot now, or
// will not; kInvalidArgument bytes that are no answer to it.
Result<EtcdAnswer> answer_of(const EtcdRequest& request, int code, std::string_view body);

}  // namespace paceline::server
