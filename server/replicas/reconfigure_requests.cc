#include "server/replicas/reconfigure_requests.h"

namespace paceline::server {

void ReconfigureRequests::ask(const wire::PeerId& from) {
  const Ticks now = clock_.now();
  Status status = role_.follower() ? unavailable("another one follows") : can_reconfigure(setup_.config);
  const bool asked = asked_at_ && now - *asked_at_ <= setup_.config.cluster.lease;
  if (!refused_.is_ok()) status = refused_;
  if (status.is_ok() && !asked && role_.acts()) {
    asked_at_ = now;
    const std::string why = "a replica of " + setup_.name() + " has come back";
    if (authority_) {
      status = authority_->reconfigure(why, now);
    } else {
      link_.send({wire::Reconfigure{why}, {}});
    }
  }
  const bool never = status.code() == StatusCode::kFailedPrecondition;
  if (never) return connections_.refuse_join(from, status);
  is_asked_ = true;
  if (status.is_ok()) status = unavailable("the run is quiesced first");
  const Status sent =
      connections_.router().send(from, {wire::Error{status.code(), status.message(), /*fatal=*/false}, {}});
  if (!sent.is_ok()) setup_.log.debug(sent.message());
}

}  // namespace paceline::server
