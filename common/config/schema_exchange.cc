// Rows of `exchange`: how what workers compute is brought together.
#include "common/config/schema.h"

namespace paceline::config {

void add_exchange(Schema& schema) {
  schema.sections.push_back({"exchange", "how what workers compute is brought together", Scope::kWholeRun});
  auto& keys = schema.keys;
  keys.push_back(row(
      PACELINE_FIELD(exchange.kind), choice<ExchangeKind>(), Scope::kWholeRun,
      {.effect =
           "server: gradients go to parameter servers. allreduce: nodes sum them among themselves, and each "
           "steps its own copy of the parameters; the server grants, evaluates and keeps the model.",
       .trade_off =
           "allreduce moves the same bytes over every link and none through a server that all share; it "
           "waits for every node, and needs policy bsp."}));
  keys.push_back(
      row(PACELINE_FIELD(exchange.algorithm), choice<schedule::Algorithm>(), Scope::kWholeRun,
          {.effect = "Who sends what to whom (`paceline schedule` prints it). auto: the fastest "
                     "for buckets of each size, tried for a second at the start.",
           .trade_off =
               "ring sends least to most neighbours, in steps that grow with the nodes; halving_doubling "
               "(powers of two) and binary_blocks take few steps; torus is between; hierarchical sums on "
               "each machine first, so that less passes between machines; direct takes two steps and a "
               "connection between all; tree is for very small buckets."}));
  keys.push_back(row(
      PACELINE_FIELD(exchange.grid), list_of(whole32(1, 4096)), Scope::kWholeRun,
      {.unit = "nodes, with pipeline.stages those of one stage",
       .effect = "torus: rows and columns, rows x columns in all; empty: as square as can be. "
                 "hierarchical: machines, and nodes on each, in their order; empty: by their addresses.",
       .trade_off =
           "A torus takes 2 (rows + columns - 2) steps, hierarchical 2 (machines + nodes on each - 2)."}));
  keys.push_back(row(PACELINE_FIELD(exchange.bucket_bytes), bytes(4, std::int64_t{1} << 30, 4),
                     Scope::kWholeRun,
                     {.unit = "bytes",
                      .effect = "Neighbouring tensors are reduced together until they have so many.",
                      .trade_off = "Less leaves earlier in the backward pass; more takes fewer steps."}));
  keys.push_back(row(
      PACELINE_FIELD(exchange.on_loss), choice<OnLoss>(), Scope::kWholeRun,
      {.effect =
           "When a node is lost. go_on: the others go on from the last whole step, and share what it leaves "
           "undone. stop: the run ends. Before the first step it ends in any case.",
       .trade_off =
           "go_on keeps a long run alive, with smaller steps; stop takes no step but of all nodes."}));
  keys.push_back(
      row(PACELINE_FIELD(exchange.shard_optimizer), boolean(), Scope::kWholeRun,
          {.effect =
               "Whether each node steps a part of the parameters only, and has the optimizer's state of that "
               "part alone: one of as many as there are nodes. With on_loss: go_on the next node keeps it, "
               "too. The parameters are the same.",
           .trade_off =
               "true: less computing, and the step is no longer hidden behind the last bucket. While a step "
               "is made its state is there twice: less memory from three nodes on, with go_on from five. "
               "Parameters travel as fp32. Under lars and lamb parts are whole tensors. Not with tree."}));
  keys.push_back(row(
      PACELINE_FIELD(exchange.measured), path_or_null(), Scope::kOneDaemon,
      {.effect =
           "The file, of this node, in which algorithm: auto keeps what it has measured. Where all nodes "
           "have one of the same nodes, buckets and encoding, nothing is measured. With pipeline.stages "
           ".stage<s> is added to its name. null: algorithms-node<n>.txt in run.out.",
       .trade_off = "A file of its own serves other runs, too; all of them then add in the same order."}));
  keys.push_back(row(
      PACELINE_FIELD(exchange.hidden), boolean(), Scope::kWholeRun,
      {.effect =
           "With train.local_steps and a threshold of 1 or more: the next round is granted while the last "
           "one's "
           "delta leaves, and parameters come while it is computed. The threshold bounds staleness as ever.",
       .trade_off =
           "A slow link costs no time while a round takes longer than its exchange; each round computes "
           "with the others' parameters of one round before, and waits for no refresh that is merely due. "
           "asp is "
           "refused."}));
  keys.push_back(
      row(PACELINE_FIELD(exchange.fragments), whole32(1, 64), Scope::kWholeRun,
          {.unit = "fragments",
           .effect =
               "With hidden: the parameters are cut into so many equal parts, whose deltas leave one "
               "after another, "
               "spread over the round, and whose means come so (streaming). At most local_steps, and 1 with "
               "local_balance.",
           .trade_off = "More spread the bytes over the round. The first parts of a delta are up to a round "
                        "older when they count. "
                        "Each training thread has two more copies of the parameters."}));
}

}  // namespace paceline::config
