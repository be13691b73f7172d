// Rows of `checkpoint`: when the state of a run is written to disk while it trains, and how much of it is
// kept.
#include "common/config/schema.h"

namespace paceline::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

}  // namespace

void add_checkpoint(Schema& schema) {
  schema.sections.push_back({"checkpoint",
                             "when the state of the run is written to disk while it trains, for "
                             "paceline-server --resume; neither every_clocks nor every: never",
                             Scope::kOneDaemon});
  auto& keys = schema.keys;
  keys.push_back(row(
      PACELINE_FIELD(checkpoint.every_clocks), or_null(whole(1, 1'000'000'000'000)), Scope::kOneDaemon,
      {.unit = "clocks",
       .effect = "A checkpoint whenever the version is a multiple of this; null: not by clocks. One that "
                 "comes due while another is being written is left out.",
       .trade_off = "Small loses less work with a server; each writes parameters and optimizer state, and "
                    "a server holds them once more meanwhile."}));
  keys.push_back(row(PACELINE_FIELD(checkpoint.every), or_null(duration(milliseconds(1), hours(24 * 365))),
                     Scope::kOneDaemon,
                     {.effect = "A checkpoint with the first version that is this much later than the one "
                                "before; null: not by time.",
                      .trade_off = "As every_clocks, in time instead of clocks: what a failure costs at most "
                                   "is known, whatever a clock takes."}));
  keys.push_back(
      row(PACELINE_FIELD(checkpoint.keep), whole(1, 1000), Scope::kOneDaemon,
          {.unit = "checkpoints",
           .effect = "How many whole ones stay on disk; older ones are removed once a new one is whole.",
           .trade_off = "2 survives a newest one that is found broken; each takes the disk of the model and "
                        "its optimizer state."}));
  keys.push_back(row(
      PACELINE_FIELD(checkpoint.keep_best), whole(0, 1), Scope::kOneDaemon,
      {.unit = "checkpoints",
       .effect = "1: each version that is evaluated is saved, too, and the one with the best test accuracy "
                 "stays beside the newest; the file checkpoint/best names it.",
       .trade_off = "A checkpoint for each evaluation (train.eval_every_clocks), and the disk of one "
                    "more."}));
}

}  // namespace paceline::config
