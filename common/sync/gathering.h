// Gathering: who has come before training begins, and whether that is enough: so many nodes, whichever, with all
// their threads. A resumed run goes on once each node that was there at the save has come or is lost, and
// somebody has come; whoever else is there takes part, too. Where nobody was there that is each node of the cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "common/ids.h"

namespace paceline::sync {

// Thread: one (the engine's).
class Gathering {
 public:
  explicit Gathering(std::uint32_t nodes) : nodes_(nodes) {}
  // Of a resumed run: `there` at the save.
  void resume(std::set<NodeId> there) { awaited_ = std::move(there); }

  // The last thread of `node` has joined.
  void come(NodeId node) {
    ++ready_;
    if (awaited_) awaited_->erase(node);
  }
  // `node` is lost; `ready`: it had come. True: those who are left may begin now.
  bool lose(NodeId node, bool ready) {
    if (ready) --ready_;
    if (awaited_) awaited_->erase(node);
    return awaited_ && complete();
  }
  bool complete() const { return awaited_ ? awaited_->empty() && ready_ > 0 : ready_ == nodes_; }

 private:
  std::uint32_t nodes_;
  std::uint32_t ready_ = 0;
  std::optional<std::set<NodeId>> awaited_;  // none: the run is not resumed
};

}  // namespace paceline::sync
