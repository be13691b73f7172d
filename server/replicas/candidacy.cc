#include "server/replicas/candidacy.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/ticks.h"

namespace paceline::server {

Candidacy::Candidacy(boost::asio::io_context& io, std::unique_ptr<EtcdClient> etcd, Primacy primacy,
                     std::function<void()> changed)
    : etcd_(std::move(etcd)), primacy_(std::move(primacy)), changed_(std::move(changed)), timer_(io) {}

bool Candidacy::acts() const { return primacy_.acts(steady_now()); }

bool Candidacy::set_complete(Primacy::Members members) {
  const bool is_primary = primacy_.set_complete(std::move(members));
  ask();
  return is_primary;
}

void Candidacy::resign(Primacy::Leave leave, std::function<void()> after) {
  resigned_ = std::move(after);
  primacy_.resign(leave);
  ask();
}

// What is due now; else again when something is. While an answer is awaited there is nothing to do.
void Candidacy::ask() {
  timer_.cancel();
  if (resigned_ && primacy_.resigned()) return std::exchange(resigned_, {})();
  const Ticks now = steady_now();
  if (const auto request = primacy_.next(now)) {
    return etcd_->ask(*request, primacy_.patience(), [this](const Result<EtcdAnswer>& answer) {
      primacy_.answered(answer, steady_now());
      ask();
      changed_();
    });
  }
  if (primacy_.awaits()) return;
  timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::max<std::chrono::nanoseconds>(primacy_.due() - now, std::chrono::milliseconds(1))));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) ask();
  });
}

}  // namespace paceline::server
