// LocalCoordinator: the synchronisation core in this very process, for training threads that exchange through a
// LocalExchange. The same engine as the authority's decides on grants and on what is applied; there are no
// leases, evaluations, checkpoints or ends by time.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/config/run_config.h"
#include "common/sync/engine.h"
#include "tests/unit/local_exchange.h"
#include "worker/exchange/coordinator.h"
#include "worker/exchange/mailboxes.h"

namespace paceline {

class LocalCoordinator final : public Coordinator {
 public:
  // `config`: as LocalExchange's, and validated. Both, and `exchange`, outlive it. All threads of
  // node 0 are taken to be there: their first grants lie ready.
  LocalCoordinator(const RunConfig& config, LocalExchange& exchange, Ticks (*now)());

  // ---- for training threads (worker/exchange/coordinator.h)
  Result<Instruction> next_instruction(std::uint32_t thread) override;
  void report(RoundReport report) override;
  std::optional<GrantHold> held(std::uint32_t thread) const override;

  // Releases every waiter with `why` (not OK), the exchange's, too: a thread cannot go on.
  void close(const Status& why);

  // How the run ended; nullopt while it goes on. Errors: what was not finite, with its worker and clock; why it
  // was closed.
  std::optional<Status> ended() const;

 private:
  void step(const sync::Event& event);
  void carry_out(const sync::Apply& action);
  void carry_out(const sync::Grant& action);
  void carry_out(const sync::FinishWorker& action);
  void carry_out(const sync::Discard& action);
  void carry_out(const sync::RunFailed& action);
  void carry_out(const sync::AllFinished& action);
  void carry_out(const sync::Reject& action);
  template <typename Action>
  void carry_out(const Action&) {}  // what only a report, or a log, would speak of
  void put(std::uint32_t thread, Instruction instruction);

  const RunConfig& config_;
  LocalExchange& exchange_;
  Ticks (*const now_)();
  Mailboxes mailboxes_;
  mutable std::mutex mutex_;
  sync::Engine engine_;
  Version decided_;  // what the last decision led to
  Status failed_;
  std::optional<Status> ended_;
};

}  // namespace paceline
