// Rows of `data` and `emulate`: what is learned from, and the heterogeneous cluster played on one machine
// (docs/CONFIG.md, Choosing emulate.base_step).
#include "common/config/schema.h"

namespace paceline::config {
void add_data_and_emulate(Schema& schema) {
  using std::chrono::hours;
  using std::chrono::microseconds;
  schema.sections.push_back({"data", "what is learned from", Scope::kOneDaemon});
  schema.sections.push_back(
      {"emulate", "a heterogeneous cluster on one machine; off while base_step is null", Scope::kWholeRun});
  auto& keys = schema.keys;

  keys.push_back(row(PACELINE_FIELD(data.kind), choice<DataKind>(), Scope::kWholeRun,
                     {.effect = "cifar10: the real images; synthetic: generated ones in the same format.",
                      .trade_off = "synthetic needs no download and is easier to learn."}));
  keys.push_back(
      row(PACELINE_FIELD(data.path), path_or_null(), Scope::kOneDaemon,
          {.effect =
               "The folder with data_batch_*.bin and test_batch.bin, whatever the kind; null: a task of your "
               "own brings its data.",
           .trade_off = "Relative to where a daemon is started; `paceline data synthesize` writes one."}));
  keys.push_back(
      row(PACELINE_FIELD(data.augment), boolean(), Scope::kWholeRun,
          {.effect = "Random crops (4 pixels of padding) and horizontal flips of the training images.",
           .trade_off = "Generalises better over many epochs, learns more slowly in few."}));
  keys.push_back(row(
      PACELINE_FIELD(data.subtract), choice<Subtract>(), Scope::kWholeRun,
      {.effect = "What is subtracted from a pixel of 0 to 255: the training set's mean of its channel, or "
                 "of its place (pixel), or subtract_values, or nothing.",
       .trade_off = "pixel is Caffe's mean image; with it a GPU does not keep the training set."}));
  keys.push_back(row(PACELINE_FIELD(data.subtract_values), list_of(real({.low = 0, .high = 255})),
                     Scope::kWholeRun,
                     {.unit = "of 0 to 255",
                      .effect = "subtract: values: one for each channel, red first, or one for all.",
                      .trade_off = "Those that a model was trained with, where it goes on from one."}));
  keys.push_back(row(
      PACELINE_FIELD(data.scale), or_null(real({.low = 0, .high = 1000, .open_low = true})), Scope::kWholeRun,
      {.effect = "What is left is multiplied by it; null: divided by the standard deviation of "
                 "its channel.",
       .trade_off = "1 keeps values of up to 255, for small learning rates."}));
  keys.push_back(
      row(PACELINE_FIELD(data.loader_threads), whole32(1, 64), Scope::kOneDaemon,
          {.unit = "threads per node",
           .effect = "Threads that prepare mini-batches ahead of the workers.",
           .trade_off = "More when BATCH shows in the phase table; they share the cores with the workers."}));
  keys.push_back(row(PACELINE_FIELD(data.prefetch_batches), whole32(1, 1024), Scope::kOneDaemon,
                     {.unit = "mini-batches per worker",
                      .effect = "Mini-batches kept ready for each worker.",
                      .trade_off = "More rides out uneven loading; each holds batch_size x 12 KiB."}));
  keys.push_back(row(
      PACELINE_FIELD(data.on_device), choice<OnDevice>(), Scope::kOneDaemon,
      {.effect = "cuda: auto puts the training set into the memory of each GPU of a node, where it takes no "
                 "more than a quarter of what is free, and mini-batches are made there, the same to the bit.",
       .trade_off = "No images to make and to copy, for 184 MB of each GPU with CIFAR-10."}));

  keys.push_back(
      row(PACELINE_FIELD(emulate.base_step), or_null(duration(microseconds(1), hours(1))), Scope::kWholeRun,
          {.effect = "Emulated time of one iteration of a node with slowdown 1; null: emulation is off.",
           .trade_off = "At least 2 x workers x real step / cores, or steps overrun and the run is marked "
                        "invalid (docs/CONFIG.md)."}));
  keys.push_back(row(PACELINE_FIELD(emulate.slowdown),
                     list_of(real({.low = 0, .high = 1000, .open_low = true})), Scope::kWholeRun,
                     {.unit = "factor per node",
                      .effect = "How much slower each node is; one value serves all, [] is 1 for all.",
                      .trade_off = "The spread decides what a policy can gain."}));
  keys.push_back(
      row(PACELINE_FIELD(emulate.jitter), choice<JitterKind>(), Scope::kWholeRun,
          {.effect = "The distribution of a random factor with mean 1 for each worker and clock.",
           .trade_off = "lognormal resembles measured clusters; exponential has the heavy tail that hurts "
                        "bsp most."}));
  keys.push_back(
      row(PACELINE_FIELD(emulate.jitter_spread), real({.low = 0, .high = 3}), Scope::kWholeRun,
          {.unit = "uniform: half width; lognormal: sigma; exponential: random share",
           .effect = "How much the random factor varies.",
           .trade_off = "Large lets short delays hide the nodes' own speeds. uniform: below 1; exponential: "
                        "at most 1."}));
  keys.push_back(
      row(PACELINE_FIELD(emulate.cores), whole32(1, 4096), Scope::kOneDaemon,
          {.unit = "compute slots",
           .effect = "How many gradients the run's nodes on one machine (those with the same run.out) may "
                     "compute at once.",
           .trade_off = "The machine's cores; more lets emulated nodes fight for the processor."}));
}

}  // namespace paceline::config
