/* counting CONFIG NODE [key.path=value ...]: a training loop in C (include/paceline/paceline.h), a process for
 * each node, beside a paceline-server of the same configuration. What it trains *counts*: a worker's gradient adds
 * 1 to its own element (learning rate 1), so the parameters say which gradients are in them.
 *
 *   own element     = own clock              read-my-writes
 *   other elements  = own clock under bsp    all gradients of the clocks before, and no other
 */
#include <paceline/paceline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char* what) {
  fprintf(stderr, "counting: %s: %s\n", what, paceline_error());
  return 1;
}

static int is(paceline_worker* worker, const char* key, const char* expected) {
  const char* value = "";
  return paceline_value(worker, key, &value) == PACELINE_OK && strcmp(value, expected) == 0;
}

/* Whether the parameters are those that the run promises. */
static int right(const paceline_round* round, uint32_t node, int bsp) {
  for (int64_t i = 0; i < round->floats; ++i) {
    if ((bsp || i == node) && round->parameters[i] != (float)round->clock) {
      fprintf(stderr, "counting: node %u, clock %lld: element %lld is %g\n", node, (long long)round->clock,
              (long long)i, round->parameters[i]);
      return 0;
    }
  }
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) return fprintf(stderr, "counting CONFIG NODE [key.path=value ...]\n"), 2;
  const uint32_t node = (uint32_t)strtoul(argv[2], NULL, 10);
  const paceline_options options = {.file = argv[1],
                                    .node = node,
                                    .overrides = (const char* const*)argv + 3,
                                    .overrides_count = (size_t)argc - 3};
  paceline_worker* worker = NULL;
  if (paceline_open(&options, &worker) != PACELINE_OK) return failed("open");
  const char* nodes = "";
  if (paceline_value(worker, "cluster.nodes", &nodes) != PACELINE_OK) return failed("value");
  const int64_t floats = strtoll(nodes, NULL, 10);
  const int bsp = is(worker, "sync.policy", "bsp");
  /* Under combine: mean a clock's gradients are averaged. */
  const float one = is(worker, "sync.combine", "mean") ? (float)floats : 1.0F;
  float* zeros = calloc((size_t)floats, sizeof *zeros);
  if (paceline_add_tensor(worker, "counts", &floats, 1, PACELINE_WEIGHT, 1, 1.0, 1.0) != PACELINE_OK ||
      paceline_start(worker, zeros, floats) != PACELINE_OK) {
    return failed("start");
  }
  free(zeros);

  paceline_round round;
  paceline_code begun;
  int ok = 1;
  while ((begun = paceline_begin(worker, -1, &round)) == PACELINE_OK) {
    ok = right(&round, node, bsp) && ok;
    for (int64_t i = 0; i < floats; ++i) round.gradient[i] = i == node ? -one : 0.0F;
    const paceline_metric metric = {.loss_sum = 0.0, .correct = -1, .samples = round.samples}; /* not counted */
    if (paceline_final_from(worker, 0) != PACELINE_OK || paceline_finish(worker, &metric) != PACELINE_OK)
      break;
  }
  if (begun != PACELINE_FINISHED) ok = !failed("begin");
  if (paceline_end(worker, NULL, -1) != PACELINE_OK) ok = !failed("end");
  paceline_close(worker);
  return ok ? 0 : 1;
}
