// Formations: which nodes make up an all-reduce, as its authority has it. A formation ends when one of its nodes is
// lost; those that are left say anew where they are reached and which version they have, and are the next one.
//
// A step takes parameters from version v to v + 1. A node steps once it has all of the sum, and no node begins the
// next step before all have. So those that are left are at v or v + 1:
//
//   all at v                  nobody has the whole sum: they make another one, of their own gradients
//   somebody at v + 1         the sum was whole, with the lost node's gradient: that one gives v + 1 to the others
//
// Pure. Thread: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace paceline::server {

struct Formation {
  std::uint32_t number = 0;            // from 1 on
  std::vector<std::string> endpoints;  // by node; empty: it is not in it
  Version version;                     // that all go on from
  std::optional<NodeId> holder;        // who gives it to those who are behind; nullopt: nobody is
};

class Formations {
 public:
  explicit Formations(std::uint32_t nodes) : reached_(nodes), in_sum_(nodes, true) {}

  // Of the newest; 0: there was none yet.
  std::uint32_t number() const { return number_; }
  // Whether the next one is being gathered; the first is, from the begin on.
  bool gathers() const { return gathers_; }
  // The newest is over.
  void end();

  // Where `node` is reached in the next one, and which version it has.
  void set_endpoint(NodeId node, const std::string& endpoint, Version version);
  bool has_endpoint(NodeId node) const { return reached_[node.value].has_value(); }
  // It is lost.
  void forget(NodeId node) {
    reached_[node.value].reset();
    of_the_same_ = 0;
  }
  // The next one, once all of `here` (one or more) have said where they are reached; `reducing`: the version that
  // the step under way begins with.
  std::optional<Formation> next(const std::vector<NodeId>& here, Version reducing);

  // Whether the node's gradient is in the sum of the step under way, as far as that is known: as long as it has
  // not been made anew without it.
  bool is_in_sum(NodeId node) const { return in_sum_[node.value]; }
  // That step is made, by all of `here`.
  void stepped(const std::vector<NodeId>& here);
  // Formations since the last step, or loss.
  std::uint32_t of_the_same() const { return of_the_same_; }

 private:
  struct Reached {
    std::string endpoint;
    Version version;
  };
  void sum_is_of(const std::vector<NodeId>& here);

  std::uint32_t number_ = 0;
  bool gathers_ = true;
  std::vector<std::optional<Reached>> reached_;  // by node
  std::vector<bool> in_sum_;                     // by node
  std::uint32_t of_the_same_ = 0;
};

}  // namespace paceline::server
