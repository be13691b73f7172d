#include "server/replicas/leader_election.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/ticks.h"

namespace paceline::server {

LeaderElection::LeaderElection(boost::asio::io_context& io, std::unique_ptr<EtcdClient> etcd,
                               LeaderLease leader_lease, std::function<void()> changed)
    : etcd_(std::move(etcd)),
      leader_lease_(std::move(leader_lease)),
      changed_(std::move(changed)),
      timer_(io) {}

bool LeaderElection::acts() const { return leader_lease_.acts(steady_now()); }

std::string LeaderElection::describe() const { return leader_lease_.describe(steady_now()); }

bool LeaderElection::set_complete(Members members) {
  const bool is_primary = leader_lease_.set_complete(std::move(members));
  ask();
  return is_primary;
}

void LeaderElection::resign(LeaderLease::Resign how, std::function<void()> after) {
  resigned_ = std::move(after);
  leader_lease_.resign(how);
  ask();
}

// What is due now; else again when something is. While an answer is awaited there is nothing to do.
void LeaderElection::ask() {
  timer_.cancel();
  if (resigned_ && leader_lease_.resigned()) return std::exchange(resigned_, {})();
  const Ticks now = steady_now();
  if (const auto request = leader_lease_.next(now)) {
    return etcd_->ask(*request, leader_lease_.patience(), [this](const Result<EtcdAnswer>& answer) {
      leader_lease_.answered(answer, steady_now());
      ask();
      changed_();
    });
  }
  if (leader_lease_.awaits()) return;
  timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::max<std::chrono::nanoseconds>(leader_lease_.due() - now, std::chrono::milliseconds(1))));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) ask();
  });
}

}  // namespace paceline::server
