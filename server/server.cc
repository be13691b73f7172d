// The public face of the loop.
#include "server/server.h"

#include <boost/asio/io_context.hpp>
#include <utility>

#include "server/loop/server_loop.h"

namespace paceline::server {

class Server::Impl {
 public:
  Impl(const RunConfig& config, ShardId shard, wire::Context& context, Log log, ServerOptions options)
      : context_(context), log_(std::move(log)), loop_(io_, config, shard, log_, options) {}

  wire::Context& context_;
  const Log log_;
  boost::asio::io_context io_{1};
  ServerLoop loop_;
};

Server::Server(const RunConfig& config, ShardId shard, wire::Context& context, Log log, ServerOptions options)
    : impl_(std::make_unique<Impl>(config, shard, context, std::move(log), options)) {}

Server::~Server() = default;

Status Server::start() { return impl_->loop_.open(impl_->context_); }

std::string Server::endpoint() const { return impl_->loop_.endpoint(); }

Status Server::run() {
  impl_->io_.run();
  return impl_->loop_.result();
}

std::optional<RestartRequest> Server::restart_request() const { return impl_->loop_.restart_request(); }

void Server::request_stop(const std::string& reason) { impl_->loop_.requests().stop(reason); }

void Server::program_ended(NodeId node, const std::string& how) {
  impl_->loop_.requests().program_ended(node, how);
}

void Server::leave(const std::string& reason) { impl_->loop_.requests().leave(reason); }

void Server::explain_waits() { impl_->loop_.requests().explain(); }

void Server::save_checkpoint() { impl_->loop_.requests().save_checkpoint(); }

std::string Server::http_address() const { return impl_->loop_.http_address(); }

std::int64_t Server::blocks_prepared() const {
  const Shard* const shard = impl_->loop_.service().shard();
  return shard == nullptr ? 0 : shard->next().committed();
}

boost::asio::io_context& Server::io() { return impl_->io_; }

}  // namespace paceline::server
