// The authority's process, as far as the simulation has one: the real engine, judged by an AuthorityChecker,
// and what server/authority/instructions.h says again to a node whose connection broke.
#pragma once

#include <functional>
#include <variant>
#include <vector>

#include "common/sync/engine.h"
#include "common/wire/messages.h"
#include "tests/sim/authority_checker.h"
#include "tests/sim/network.h"

namespace paceline::test {

class AuthorityModel {
 public:
  using Instruction = std::variant<std::monostate, sync::Grant, sync::FinishWorker>;
  // To whom its decisions go.
  struct Handlers {
    std::function<void(WorkerId, const Instruction&)> node;
    std::function<void(const wire::Message&)> shards;  // all of them
    std::function<void(const sync::Discard&)> discarded;
    // Whether the decision just made is to be saved; what of it is, the authority has in itself by then.
    std::function<bool(const AuthorityModel&)> saves;
    std::function<void()> rests;  // Quiesced
  };
  AuthorityModel(sync::Engine engine, AuthorityChecker checker, Network& network, Handlers handlers);

  // Perhaps time passes before it. False: it is refused.
  bool takes(const sync::Event& event);
  // The same at that time, and nothing else happens: a function of the events alone.
  bool step(const sync::Event& event, Ticks now);
  // It does not know what of its last words the node has heard.
  void node_reconnected(NodeId node);

  const sync::Engine& engine() const { return engine_; }
  AuthorityChecker& checker() { return checker_; }
  const AuthorityChecker& checker() const { return checker_; }
  std::int64_t decisions() const { return sequence_; }
  std::int64_t retransmitted() const { return retransmitted_; }

 private:
  void carry_out(const sync::Action& action, bool saves);
  void instruct(WorkerId worker, const Instruction& instruction);
  void instruct_again(WorkerId worker);

  sync::Engine engine_;
  AuthorityChecker checker_;
  Network& network_;
  Handlers handlers_;
  // The last two, by rank: a grant may go ahead of what the one before leads to.
  struct Sent {
    Instruction before, last;
  };
  std::vector<Sent> sent_;
  std::int64_t sequence_ = 0;  // of ApplyDecisions
  std::int64_t retransmitted_ = 0;
};

}  // namespace paceline::test
