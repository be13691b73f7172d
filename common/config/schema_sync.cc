// Rows of `sync`: the policy, what a worker may see, and how gradients are applied (docs/SYNC.md).
#include "common/config/schema.h"

namespace paceline::config {
namespace {

// A whole number of clocks; an infinite one is a policy of its own, and the message says which.
Domain<std::int64_t> threshold() {
  Domain<std::int64_t> domain = whole(0, 1'000'000);
  domain.read = [plain = domain.read, expected = domain.expected](
                    const Value& value, std::int64_t& field) -> std::optional<Fault> {
    if (value.text == "inf" || value.text == ".inf") {
      return fault(value, "a threshold without bound", expected + "; for no bound say policy: asp");
    }
    return plain(value, field);
  };
  return domain;
}

bool has_threshold(const RunConfig& c) {
  return c.sync.policy == PolicyKind::kSsp || c.sync.policy == PolicyKind::kDtssp ||
         c.sync.policy == PolicyKind::kRandomWalk;
}
bool has_range(const RunConfig& c) {
  return c.sync.policy == PolicyKind::kDssp || (has_threshold(c) && c.sync.policy != PolicyKind::kSsp);
}
bool has_backups(const RunConfig& c) { return c.sync.policy == PolicyKind::kBackup; }
bool switches(const RunConfig& c) { return c.sync.policy == PolicyKind::kSwitch; }
bool always(const RunConfig&) { return true; }

Key by_policy(Key key, bool (*applies)(const RunConfig&)) {
  key.by_policy = true;
  key.applies = applies;
  return key;
}

}  // namespace

void add_sync(Schema& schema) {
  schema.sections.push_back({"sync", "how far the fast may lead, and what everybody sees", Scope::kWholeRun});
  schema.sections.push_back({"sync.lpr", "the learning progress ratio that steers dtssp", Scope::kWholeRun});
  auto& keys = schema.keys;

  keys.push_back(row(
      PACELINE_FIELD(sync.policy), choice<PolicyKind>(), Scope::kWholeRun,
      {.effect = "Who must wait: bsp everybody each clock, asp nobody, ssp beyond a fixed lead, dtssp "
                 "beyond a lead steered by progress, random_walk "
                 "beyond one steered by a coin, dssp beyond one chosen for the fastest from push times; "
                 "backup everybody each clock, but for the last to come; switch one policy after another.",
       .trade_off = "bsp learns most per iteration and runs at the slowest's pace; asp the reverse. "
                    "random_walk is the control for dtssp. backup is exact like bsp and throws the last "
                    "gradients away."}));
  keys.push_back(by_policy(
      row(PACELINE_FIELD(sync.threshold), threshold(), Scope::kWholeRun,
          {.unit = "clocks",
           .effect = "How far a worker may lead the slowest when it is granted an iteration (ssp; dtssp "
                     "and random_walk start here).",
           .trade_off = "Larger waits less for short delays and computes with older parameters; 0 is bsp.",
           .fallback = "3 under ssp, dtssp and random_walk; refused under the others"}),
      has_threshold));
  keys.push_back(by_policy(
      row(PACELINE_FIELD(sync.threshold_min), threshold(), Scope::kWholeRun,
          {.unit = "clocks",
           .effect =
               "dtssp and random_walk never lower the threshold below this; under dssp it is everybody's.",
           .trade_off = "Small lets bad learning tighten the run up to bsp at 0.",
           .fallback = "3 under dtssp, random_walk and dssp; refused under the others"}),
      has_range));
  keys.push_back(by_policy(
      row(PACELINE_FIELD(sync.threshold_max), threshold(), Scope::kWholeRun,
          {.unit = "clocks",
           .effect =
               "dtssp and random_walk never raise the threshold above this; nor does dssp the fastest's.",
           .trade_off = "Large lets good learning loosen the run; the server holds up to this + 2 "
                        "gradients per worker.",
           .fallback = "10 under dtssp, random_walk and dssp; refused under the others"}),
      has_range));
  keys.push_back(by_policy(
      row(PACELINE_FIELD(sync.backup_workers), whole(0, 1'000'000), Scope::kWholeRun,
          {.unit = "workers",
           .effect = "backup: a clock takes the first (workers - this) gradients; the others are dropped.",
           .trade_off = "Each waits for one straggler less and wastes one worker's work; 0 is bsp.",
           .fallback = "1 under backup; refused under the others"}),
      has_backups));
  keys.push_back(by_policy(
      row(PACELINE_FIELD(sync.stages), list_of(policy_stage()), Scope::kWholeRun,
          {.effect =
               "switch: policies with their parameters, one after the other; `until` says when the next "
               "one takes over.",
           .trade_off =
               "A policy takes over at a version. A stage may have `apply` (else asp is eager, the others as "
               "the stage before them; eager is each, and nothing goes back) and `lr_scale`, by which the "
               "learning rate is multiplied: bsp with mean takes one step where asp takes one per worker.",
           .fallback = "required under switch; refused under the others"}),
      switches));
  keys.push_back(
      row(PACELINE_FIELD(sync.refresh_clocks), or_null(whole(1, 1'000'000)), Scope::kWholeRun,
          {.unit = "own clocks",
           .effect = "Refresh parameters that are this old and known to be outdated; null: only when "
                     "required.",
           .trade_off = "1 keeps everybody fresh, which learns best; null sends least and is what the DTSSP "
                        "paper's caches do. asp refuses null: nobody would ever pull."}));
  keys.push_back(row(
      PACELINE_FIELD(sync.pull_order), choice<PullOrder>(), Scope::kWholeRun,
      {.effect = "eager: whether a refresh that is merely due is asked for before the gradient or after it.",
       .trade_off =
           "before_push hides the way down behind the way up, where a network carries both at once; "
           "after_push "
           "is fresher by what was applied meanwhile, the own gradient too, and takes less processor "
           "time. auto: after_push where the nodes and one shard share a machine and have more threads "
           "computing than it has cores."}));
  keys.push_back(
      by_policy(row(PACELINE_FIELD(sync.apply), choice<ApplyMode>(), Scope::kWholeRun,
                    {.effect = "versioned: gradients of a clock are applied together, in worker order; "
                               "eager: on arrival.",
                     .trade_off = "versioned has well-defined versions and under bsp exact bits; eager is "
                                  "fresher and not reproducible. bsp needs versioned, asp eager.",
                     .fallback = "eager under asp, else versioned; of stages the first is meant"}),
                always));
  keys.push_back(
      by_policy(row(PACELINE_FIELD(sync.combine), choice<CombineMode>(), Scope::kWholeRun,
                    {.effect = "mean: one optimizer step per clock with the averaged gradient; each: one "
                               "step per gradient.",
                     .trade_off = "mean equals a larger mini-batch; each takes as many steps as there are "
                                  "workers, so its learning rate must be smaller. eager needs each; stages "
                                  "that are eager have it.",
                     .fallback = "each where apply is eager, else mean"}),
                always));
  keys.push_back(row(PACELINE_FIELD(sync.lpr.metric), choice<LprMetric>(), Scope::kWholeRun,
                     {.effect = "The training metric whose relative change is the progress.",
                      .trade_off = "accuracy is the paper's and coarse at the end; loss moves longer."}));
  keys.push_back(
      row(PACELINE_FIELD(sync.lpr.window_clocks), or_null(whole(1, 1'000'000'000)), Scope::kWholeRun,
          {.unit = "clocks",
           .effect = "Length of the windows that are compared; null: 20,000 / samples per clock, rounded up.",
           .trade_off = "Long windows are less noisy and react later."}));
  keys.push_back(row(PACELINE_FIELD(sync.lpr.increase_above), real({}), Scope::kWholeRun,
                     {.unit = "per cent",
                      .effect = "dtssp raises the threshold by 1 when progress exceeds this.",
                      .trade_off = "Low loosens on little progress."}));
  keys.push_back(row(PACELINE_FIELD(sync.lpr.decrease_below), real({}), Scope::kWholeRun,
                     {.unit = "per cent",
                      .effect = "dtssp lowers the threshold by 1 when progress falls below this.",
                      .trade_off = "High tightens as soon as learning stalls; not above increase_above."}));
}

}  // namespace paceline::config
