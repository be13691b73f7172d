// Rows of `data` and `emulate`: what is learned from, and the heterogeneous cluster played on one machine
// (docs/CONFIG.md, Choosing emulate.base_step).
#include "common/config/schema.h"
#include "common/label.h"

namespace paceline::config {
void add_data_and_emulate(Schema& schema) {
  using std::chrono::hours;
  using std::chrono::microseconds;
  schema.sections.push_back({"data", "what is learned from", Scope::kOneDaemon});
  schema.sections.push_back(
      {"data.crop", "from a picture of any size to a sample (kind: images)", Scope::kWholeRun});
  schema.sections.push_back(
      {"emulate", "a heterogeneous cluster on one machine; off while base_step is null", Scope::kWholeRun});
  auto& keys = schema.keys;

  keys.push_back(
      row(PACELINE_FIELD(data.kind), choice<DataKind>(), Scope::kWholeRun,
          {.effect = "cifar10: the real images; synthetic: generated ones in the same format; images: "
                     "folders of JPEG and PNG files.",
           .trade_off = "synthetic needs no download and is easier to learn; images decodes each "
                        "picture each time."}));
  keys.push_back(row(
      PACELINE_FIELD(data.path), path_or_null(), Scope::kOneDaemon,
      {.effect =
           "The folder with data_batch_*.bin and test_batch.bin, or under kind: images with train/ and test/ "
           "(or val/), each with a folder for each class, or with the lists train.txt and test.txt (or "
           "val.txt), a path and a label a line; null: a task of your own brings its data.",
       .trade_off = "Relative to where a daemon is started; `paceline data synthesize` writes one."}));
  keys.push_back(row(
      PACELINE_FIELD(data.augment), boolean(), Scope::kWholeRun,
      {.effect = "Random crops (4 pixels of padding; images: as data.crop says) and horizontal flips of the "
                 "training images.",
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
  keys.push_back(
      row(PACELINE_FIELD(data.mean_file), path_or_null(), Scope::kOneDaemon,
          {.effect = "subtract: pixel: a Caffe mean file (binaryproto) with a mean for each place; null: "
                     "they are computed from the training set.",
           .trade_off = "The means that a model was trained with, where it goes on from one."}));
  keys.push_back(row(
      PACELINE_FIELD(data.scale), or_null(real({.low = 0, .high = 1000, .open_low = true})), Scope::kWholeRun,
      {.effect = "What is left is multiplied by it; null: divided by the standard deviation of "
                 "its channel.",
       .trade_off = "1 keeps values of up to 255, for small learning rates."}));
  keys.push_back(row(
      PACELINE_FIELD(data.train_samples), or_null(whole(1, 1'000'000'000'000)), Scope::kOneSession,
      {.unit = "samples",
       .effect = "What an epoch has where a schedule or train.total_epochs counts them; a node whose data "
                 "have another number does not begin. null: 50,000 of cifar10, else not known.",
       .trade_off = "A number to keep right, for schedules that the number of workers leaves alone."}));
  keys.push_back(row(
      PACELINE_FIELD(data.parts), choice<DataParts>(), Scope::kWholeRun,
      {.effect = "anew: each epoch's shuffle gives each node other samples; fixed: a node of n always has "
                 "every n-th one, which its epochs shuffle.",
       .trade_off = "fixed reads and caches an n-th on each node; a mini-batch of all nodes is no longer one "
                    "of a single node's shuffle."}));
  keys.push_back(
      row(PACELINE_FIELD(data.loader_threads), whole32(1, 64), Scope::kOneDaemon,
          {.unit = "threads per node",
           .effect = "Threads that prepare mini-batches ahead of the workers.",
           .trade_off = "More when BATCH shows in the phase table; they share the cores with the workers."}));
  keys.push_back(
      row(PACELINE_FIELD(data.prefetch_batches), whole32(0, 1024), Scope::kOneDaemon,
          {.unit = "mini-batches per worker",
           .effect = "Mini-batches kept ready for each worker; 0: each is made when it is asked for.",
           .trade_off = "More rides out uneven loading; each holds batch_size x 12 KiB with 32 x 32 "
                        "pixels, x 588 KiB with 224 x 224."}));
  keys.push_back(row(
      PACELINE_FIELD(data.on_device), choice<OnDevice>(), Scope::kOneDaemon,
      {.effect = "cuda: auto puts the training set into the memory of each GPU of a node, where it takes no "
                 "more than a quarter of what is free, and mini-batches are made there, the same to the bit.",
       .trade_off = "No images to make and to copy, for 184 MB of each GPU with CIFAR-10."}));

  keys.push_back(row(PACELINE_FIELD(data.classes), whole(2, kClassesMax), Scope::kWholeRun,
                     {.unit = "classes",
                      .effect = "images: how many class folders there are, and outputs of the network.",
                      .trade_off = "A folder with another number is refused."}));
  keys.push_back(row(
      PACELINE_FIELD(data.test_share), real({.low = 0, .high = 0.9}), Scope::kWholeRun,
      {.unit = "share of each class",
       .effect = "images: class folders lie in data.path itself, and so many of their pictures are the test "
                 "set, chosen by their names; 0: train/ and test/ (or val/) are two folders.",
       .trade_off = "More makes the accuracy surer and leaves less to learn from."}));
  const auto levels = list_of(real({.low = 0, .high = 255}));
  keys.push_back(
      row(PACELINE_FIELD(data.mean), levels, Scope::kWholeRun,
          {.unit = "levels of red, green, blue, 0 to 255",
           .effect = "images: what is subtracted from each pixel.",
           .trade_off = "The default is ImageNet's; others' nets want the mean they were made with."}));
  keys.push_back(row(PACELINE_FIELD(data.deviation), list_of(real({.low = 0, .high = 1e6, .open_low = true})),
                     Scope::kWholeRun,
                     {.unit = "levels of red, green, blue",
                      .effect = "images: what the difference from data.mean is divided by.",
                      .trade_off = "The default is ImageNet's standard deviation; 255 gives a range of 1."}));
  keys.push_back(row(
      PACELINE_FIELD(data.cache), bytes(0, std::int64_t{1} << 50, 1), Scope::kOneDaemon,
      {.unit = "bytes of a machine",
       .effect = "images: files kept in memory as they are, once for all processes of a machine; 0: none.",
       .trade_off = "Spares reading the files again; no more than half of what /dev/shm has free."}));
  keys.push_back(row(
      PACELINE_FIELD(data.decode), choice<DecodeKind>(), Scope::kWholeRun,
      {.effect = "images: fused decodes only the part of a JPEG that is shown; whole all of it, to the same "
                 "pixels; scaled at a half, a quarter or an eighth where the part is at least twice as large "
                 "as the sample.",
       .trade_off = "scaled is the fastest with large pictures, whose pixels it changes a little."}));
  keys.push_back(row(
      PACELINE_FIELD(data.on_bad), choice<OnBad>(), Scope::kWholeRun,
      {.effect = "images: a file that cannot be read is named and another takes its place, or ends the run.",
       .trade_off = "skip loses no run to one picture; fail says at once that data are broken."}));
  keys.push_back(
      row(PACELINE_FIELD(data.max_pixels), whole(1, std::int64_t{1} << 30), Scope::kWholeRun,
          {.unit = "pixels",
           .effect = "images: a picture that says it is larger counts as bad, before any of it is decoded.",
           .trade_off = "Each loader thread may need 4 bytes for each of them, for a progressive JPEG 12."}));
  keys.push_back(row(PACELINE_FIELD(data.crop.size), whole(1, 4096), Scope::kWholeRun,
                     {.unit = "pixels a side",
                      .effect = "The network's input: 3 x size x size.",
                      .trade_off = "Computing grows with its square."}));
  keys.push_back(row(
      PACELINE_FIELD(data.crop.resize), whole(1, 8192), Scope::kWholeRun,
      {.unit = "pixels of the shorter side",
       .effect = "What a picture is resized to before a square of crop.size is cut from it: from the centre, "
                 "or with augment and kind: place anywhere.",
       .trade_off = "The nearer to crop.size, the more of the picture is seen."}));
  keys.push_back(row(
      PACELINE_FIELD(data.crop.kind), choice<CropKind>(), Scope::kWholeRun,
      {.effect = "With augment: area takes a part of random area and aspect and resizes it; place a square "
                 "of crop.size anywhere in the resized picture.",
       .trade_off = "area generalises better over many epochs, and costs less decoding."}));
  keys.push_back(row(PACELINE_FIELD(data.crop.area), list_of(real({.low = 0, .high = 1, .open_low = true})),
                     Scope::kWholeRun,
                     {.unit = "share of the picture",
                      .effect = "kind: area: the smallest and the largest part.",
                      .trade_off = "Small parts may miss what the label means."}));
  keys.push_back(row(PACELINE_FIELD(data.crop.aspect), list_of(real({.low = 0.1, .high = 10})),
                     Scope::kWholeRun,
                     {.unit = "width / height",
                      .effect = "kind: area: the narrowest and the widest part.",
                      .trade_off = "Far from 1 distorts what is seen."}));
  keys.push_back(
      row(PACELINE_FIELD(data.crop.padding), whole(0, 1024), Scope::kWholeRun,
          {.unit = "pixels on each side",
           .effect = "kind: place: mean colour around the resized picture, into which a crop may reach.",
           .trade_off = "4 is usual for pictures of 32 pixels, 0 for large ones."}));
  keys.push_back(row(PACELINE_FIELD(data.crop.flip), boolean(), Scope::kWholeRun,
                     {.effect = "With augment: every other picture is mirrored, left to right.",
                      .trade_off = "Wrong where left and right differ, as with letters."}));

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
