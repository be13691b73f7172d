/* The C interface of Paceline: any training loop as a worker of a run, whatever computes its gradients.
 *
 * The loop is the caller's: model, data, gradients. Paceline brings parameters from the run's servers, takes
 * gradients to them, and decides when the loop may go on (docs/SYNC.md). The servers' optimizer
 * (train.optimizer) takes the steps.
 *
 *   paceline_open(&options, &worker)            reads the configuration; no socket opens yet
 *   paceline_add_tensor(worker, "fc.weight", …) describes the parameters, one tensor after another
 *   paceline_start(worker, initial)             joins the servers, on threads of the library's own
 *   while (paceline_begin(worker, -1, &round) == PACELINE_OK) {
 *     … computes round.gradient at round.parameters …
 *     paceline_finish(worker, &metric);
 *   }
 *   paceline_end(worker, NULL, -1);             waits for the end of the run
 *   paceline_close(worker);
 *
 * Errors. A function that can fail returns a code, and paceline_error() has the text: one line that says
 * what, where, got and expected. Nothing here ends the process, and no C++ exception leaves the library.
 *
 * Threads. A worker belongs to one thread at a time, which makes all calls. Workers of one process are
 * independent of each other. The evaluate function is called on a thread of the library's. Signals are not
 * delivered to the library's threads.
 *
 * Memory. What is passed in is copied before the call returns, but by paceline_copy_gradient(). What comes out belongs
 * to the worker; each function says for how long it may be used.
 *
 * Parameters and gradients are one flat vector of float32: the tensors one after another, each in row-major
 * order, without gaps, in the order in which they were added.
 */
#ifndef PACELINE_PACELINE_H_
#define PACELINE_PACELINE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PACELINE_API __attribute__((visibility("default")))
#else
#define PACELINE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What became of a call. Values do not change from version to version. */
typedef enum paceline_code {
  PACELINE_OK = 0,
  PACELINE_INVALID_ARGUMENT = 1,    /* the caller, or the configuration, is wrong */
  PACELINE_FAILED_PRECONDITION = 2, /* not now: another call has to come first */
  PACELINE_NOT_FOUND = 3,           /* a file that is not there */
  PACELINE_UNAVAILABLE = 4,         /* a server, or a resource of this machine, that is not there */
  PACELINE_DEADLINE_EXCEEDED = 5,   /* a server was silent for too long */
  PACELINE_RESOURCE_EXHAUSTED = 6,  /* no memory, threads or descriptors are left */
  PACELINE_ABORTED = 7,             /* the node was told to end, or the run was before its first round */
  PACELINE_INTERNAL = 8,            /* anything else */
  PACELINE_FINISHED = 100,          /* the run is over, and ended well: there is no further round */
  PACELINE_TIMED_OUT = 101,         /* what was waited for has not come yet: call again */
  PACELINE_STOPPED = 102 /* the run was stopped at its servers, in order: there is no further round */
} paceline_code;

/* What a tensor is to its layer; optimizers may treat roles differently (train.optimizer.decay). */
typedef enum paceline_role {
  PACELINE_WEIGHT = 0, /* what inputs are multiplied by */
  PACELINE_BIAS = 1,   /* what is added to each channel or unit */
  PACELINE_NORM = 2,   /* scale and shift of a normalisation */
  /* State that no gradient trains, as running means. A round writes what it has come to in the gradient's place, and
   * the run's goes lr_factor (at most 1) of the way there. */
  PACELINE_BUFFER = 3
} paceline_role;

/* Whether a tensor is trained. */
enum paceline_trainable {
  PACELINE_FIXED = 0,   /* it has the same values everywhere and never changes */
  PACELINE_TRAINED = 1, /* each round has a gradient of it */
  /* As PACELINE_TRAINED, but a round may have no gradient of it. Its place then has -0.0f all over, and no other
   * gradient of such a tensor has a -0.0f (adding 0.0f takes them away). A step for which no worker has one leaves the
   * tensor, its momentum and the like as they are. With what keeps no sign of a zero (cluster.gradient_encoding int8
   * and top_k; servers on a GPU) it is a gradient of zero. With fp16 a gradient whose elements all round to -0 is taken
   * for none. */
  PACELINE_MAY_BE_UNUSED = 2
};

/* What becomes of an earlier run's files of this node in run.out. */
typedef enum paceline_existing {
  PACELINE_REFUSE = 0,  /* paceline_open fails */
  PACELINE_REPLACE = 1, /* they are replaced, unless that run ended well */
  PACELINE_CONTINUE = 2 /* the run goes on, as with paceline-server --resume */
} paceline_existing;

typedef struct paceline_worker paceline_worker;

/* Begin with {0}: each field then has its usual value. */
typedef struct paceline_options {
  const char* file;             /* the run's configuration, a path; or: */
  const char* text;             /* the configuration itself, YAML. Exactly one of both. */
  const char* const* overrides; /* "key.path=value", as on the command line; a later one counts */
  size_t overrides_count;
  uint32_t node; /* this worker's number, 0 to cluster.nodes - 1 */
  paceline_existing existing;
} paceline_options;

/* Sums over samples, so that those of several workers can be added. */
typedef struct paceline_metric {
  double loss_sum; /* of the loss, in its own unit */
  int64_t correct; /* samples classified correctly; -1: nobody has counted them */
  int64_t samples; /* > 0 */
} paceline_metric;

/* What a round computes with. Valid from paceline_begin() until paceline_finish() or paceline_end(). */
typedef struct paceline_round {
  const float* parameters; /* `floats` of them, to be read */
  float* gradient; /* `floats` of them, to be written: all, before paceline_finish(). Undefined before. */
  int64_t floats;
  int64_t clock;     /* rounds that this worker has completed */
  int64_t iteration; /* the round's place in the run */
  int64_t position;  /* its mini-batch, for loops that share out their data by it: samples */
  int64_t samples;   /* [position, position + samples) of an endless, shuffled data set */
} paceline_round;

/* Version of the library, as "0.1.0". Static. Thread: any. */
PACELINE_API const char* paceline_version(void);

/* Why the last call of this thread that did not return PACELINE_OK did not. Valid until this thread's next
 * call. */
PACELINE_API const char* paceline_error(void);

/* Reads the configuration. *worker belongs to the caller, who gives it to
 * paceline_close(). Errors, *worker is then NULL: NOT_FOUND and INVALID_ARGUMENT a configuration that is not
 * there or not right, by file, line and key (train.layers included: the caller brings the model);
 * FAILED_PRECONDITION the run directory holds a run. */
PACELINE_API paceline_code paceline_open(const paceline_options* options, paceline_worker** worker);

/* The effective value of a key of the configuration, as `paceline` prints it: "32", "null", "[1, 2]". *value
 * is valid until the next call. Errors: INVALID_ARGUMENT no such key. */
PACELINE_API paceline_code paceline_value(paceline_worker* worker, const char* key, const char** value);

/* Appends a tensor of `dimensions` sizes in `shape`; 0: a scalar. All nodes of a run must describe the same
 * tensors in the same order. `trainable`: an enum paceline_trainable. `lr_factor` multiplies the learning
 * rate, `decay_factor` the weight decay; 1 is usual.
 * Errors: INVALID_ARGUMENT an empty or repeated name, a size < 1, a factor < 0, another `trainable`;
 * FAILED_PRECONDITION once started, naming the tensor. */
PACELINE_API paceline_code paceline_add_tensor(paceline_worker* worker, const char* name,
                                               const int64_t* shape, size_t dimensions, paceline_role role,
                                               int trainable, double lr_factor, double decay_factor);

/* The built-in network, for loops that bring samples and have no model of their own. It belongs to the thread that
 * opened it, and computes on that one core. It knows no run: whoever has one without a worker can train and
 * evaluate by it. */
typedef struct paceline_network paceline_network;

/* `layers`: a list as train.layers has it (configs/reference.yaml), in one line: "[{kind: dense, out: 32},
 * {kind: relu}, {kind: dense, out: 10}]". The last gives a logit for each class, of which there are 2 to 65,536.
 * `input`: channels, height and width of a sample, n, 1, 1 for n numbers. `batch_size`: of the largest
 * mini-batch. `seed`: of its first parameters and its dropout. *network belongs to the caller, who gives it to
 * paceline_network_close(). Errors, *network is then NULL: INVALID_ARGUMENT, by the layer. */
PACELINE_API paceline_code paceline_network_open(const char* layers, const int64_t* input, int64_t batch_size,
                                                 uint64_t seed, paceline_network** network);

/* How many parameters, and how many classes it has. */
PACELINE_API int64_t paceline_network_floats(const paceline_network* network);
PACELINE_API int64_t paceline_network_classes(const paceline_network* network);

/* Writes its first parameters, as many as it has: a function of layers and seed. */
PACELINE_API paceline_code paceline_network_initialize(paceline_network* network, float* parameters);

/* The gradient of the mean cross-entropy over `count` samples, with dropout, into `gradient`, whole, and the metric of
 * them. `samples`: row-major, one after another; `labels`: 0 to classes - 1. `position`: that of the first sample in
 * the run (paceline_round), by which dropout draws. Errors: INVALID_ARGUMENT another number of samples than 1 to
 * batch_size, or a label that is none. */
PACELINE_API paceline_code paceline_network_gradient(paceline_network* network, const float* parameters,
                                                     const float* samples, const int64_t* labels,
                                                     int64_t count, int64_t position, float* gradient,
                                                     paceline_metric* metric);

/* The metric of `parameters` on `count` samples, without dropout. Arguments and errors as above. */
PACELINE_API paceline_code paceline_network_evaluate(paceline_network* network, const float* parameters,
                                                     const float* samples, const int64_t* labels,
                                                     int64_t count, paceline_metric* metric);

/* NULL: nothing. */
PACELINE_API void paceline_network_close(paceline_network* network);

/* Appends the tensors of a network, its running means included, to the worker's layout; paceline_start() then gets
 * its first parameters, and each round's are to be given to it. Errors: as paceline_add_tensor(). */
PACELINE_API paceline_code paceline_add_network(paceline_worker* worker, const paceline_network* network);

/* A loop whose model is cut over the nodes of a group, one stage each (docs/PIPELINES.md; pipeline.stages, and
 * pipeline.balance: loop). Each round is then paceline_step_stages() and paceline_finish(), and parameters and
 * gradient are those of the node's stage.
 *
 * A micro-batch on its way through the stage: samples [first, first + samples) of the mini-batch. Floats are those of
 * one sample after those of another. What is called for it returns 0; anything else: it could not, and the node
 * leaves for the reason `why`. It is called on the thread that called paceline_step_stages(). */
typedef struct paceline_pass {
  int64_t first;
  int64_t samples;
  int64_t divisor; /* backward: gradients are of the sum of the samples' losses divided by this */
  int kept; /* forward. 0: the same samples come forward once more before their way back, and nothing is to be kept */
  const float* in;           /* forward: `floats_in` of each sample; of the first stage NULL */
  float* out;                /* forward: `floats_out` of each, to be written; of the last stage NULL */
  const float* out_gradient; /* backward: of `out`; of the last stage NULL */
  float* in_gradient;        /* backward: of `in`, to be written; of the first stage NULL */
  float* gradient;           /* backward: of the stage's parameters, to be written, whole */
  paceline_metric metric;    /* forward, of the last stage: to be written */
  int64_t kept_bytes; /* forward: to be written: what is kept for the way back, for the run's summary */
  const char* why;    /* NULL, or to be written by what could not; lives until the next call */
} paceline_pass;
typedef int (*paceline_take)(void* context, paceline_pass* pass);

typedef struct paceline_stage {
  const int64_t*
      ends; /* for each stage of the cut, where its parameters end in the layout; the last: its floats */
  size_t stages;
  int64_t floats_in;  /* of a sample, that this stage gets from the one in front; of the first 0 */
  int64_t floats_out; /* that it hands on; of the last 0 */
  paceline_take forward;
  paceline_take backward; /* after a forward pass that was kept */
  void* context;          /* passed on; lives until paceline_close() */
} paceline_stage;

/* After the last tensor and before paceline_start(). Errors: INVALID_ARGUMENT a cut that is none; FAILED_PRECONDITION
 * once started. */
PACELINE_API paceline_code paceline_on_stage(paceline_worker* worker, const paceline_stage* stage);

/* What is called several times a second, on its thread, while paceline_step_stages() waits for another stage: what is
 * not 0 ends the wait, and the node leaves (ABORTED). For loops that signals are to reach. Before paceline_start(). */
PACELINE_API paceline_code paceline_on_wait(paceline_worker* worker, int (*callback)(void* context),
                                            void* context);

/* The round's mini-batch through the stages, of which all of a group have the same `samples`, from as many as there are
 * stages to train.batch_size of each. Calls forward and backward, waits for the other stages, and writes the round's
 * gradient, whole. `metric` is what paceline_finish() is to be given. Errors: INVALID_ARGUMENT another number of
 * samples; the round is still under way then. FAILED_PRECONDITION no round is under way, or its mini-batch has gone
 * through. After any other the node leaves: INTERNAL what was called has failed; UNAVAILABLE another stage is gone,
 * ABORTED the run was stopped, FAILED_PRECONDITION another stage is at another step. */
PACELINE_API paceline_code paceline_step_stages(paceline_worker* worker, int64_t samples,
                                                paceline_metric* metric);

/* The measure of `parameters` (`floats` of them, valid during the call) on test data, into `metric`.
 * Returns 0; anything else: it could not, and the run goes on without. Called on a thread of the library's,
 * one call at a time, also while the worker's thread computes and while it waits in paceline_end(). */
typedef int (*paceline_evaluate)(void* context, const float* parameters, int64_t floats,
                                 paceline_metric* metric);

/* Who evaluates the versions that the run asks this node for (train.eval_every_clocks) and the final model.
 * Before paceline_start(). Without one, the node says that nothing measures its model. `context` is passed
 * on, and lives until paceline_close(). Errors: FAILED_PRECONDITION once started. */
PACELINE_API paceline_code paceline_on_evaluate(paceline_worker* worker, paceline_evaluate evaluate,
                                                void* context);

/* Joins the run. `initial`: as many floats as the layout has, in its order; the run begins with those of node
 * 0, or of train.init_from. Returns at once: what goes wrong with the joining, paceline_begin() returns.
 * Errors: INVALID_ARGUMENT no tensor, or another number of floats; FAILED_PRECONDITION started already, or
 * run.out holds a run; UNAVAILABLE the node's log cannot be made there; RESOURCE_EXHAUSTED no thread. */
PACELINE_API paceline_code paceline_start(paceline_worker* worker, const float* initial, int64_t floats);

/* Waits until the next round may begin, for `timeout_ms` milliseconds at most; < 0: as long as it takes.
 * FINISHED: the run is over; STOPPED: it was stopped after the round that was finished last. TIMED_OUT: not yet;
 * nothing is lost. Errors: why the node cannot go on; each further call says so again. FAILED_PRECONDITION a round is
 * under way, or not started. */
PACELINE_API paceline_code paceline_begin(paceline_worker* worker, int64_t timeout_ms, paceline_round* round);

/* Elements [first, first + floats) of the round's gradient are to be `values`, a -0.0f among them as 0.0f. A thread of
 * the library's copies them while the loop goes on. `values` stay as they are until paceline_begin() has returned the
 * next round, or paceline_close() has returned. For loops whose gradients lie elsewhere; never needed. Errors:
 * INVALID_ARGUMENT floats that the gradient does not have, or that are final; FAILED_PRECONDITION no round is under
 * way. */
PACELINE_API paceline_code paceline_copy_gradient(paceline_worker* worker, int64_t first, const float* values,
                                                  int64_t floats);

/* Elements [begin, floats) of the round's gradient are final: they may leave while the rest is computed, and
 * must not be written any more. Never needed. `begin` falls from call to call; one that does not says nothing
 * new. Errors: INVALID_ARGUMENT begin is not in [0, floats]; FAILED_PRECONDITION no round is under way. */
PACELINE_API paceline_code paceline_final_from(paceline_worker* worker, int64_t begin);

/* The round's gradient is complete, the mean over its mini-batch; it leaves. Does not wait. A gradient or
 * loss that is not finite is not an error here: train.on_nan says what follows. Errors: INVALID_ARGUMENT
 * metric->samples < 1, or correct is not in [-1, samples]; the round is still under way then;
 * FAILED_PRECONDITION no round is under way, or a stage has not stepped. */
PACELINE_API paceline_code paceline_finish(paceline_worker* worker, const paceline_metric* metric);

/* No further round of this loop; of one that is under way nothing counts. `why` NULL: the loop has come to
 * its end. If the run has, too, that is a good end; else the node leaves, named in the run's log, and the others
 * go on. `why` not NULL: the node leaves at once, and that is said of it (an exception's text, "interrupted").
 * Waits until the node has ended, for `timeout_ms` at most (< 0: as long as it takes); TIMED_OUT: call again,
 * with a `why` to end it sooner. With a `why` another thread may call this, too, where the worker's hangs in code of
 * its own. OK: the run ended well. STOPPED, errors: how the node ended, as paceline_begin(); ABORTED: before the run
 * did. */
PACELINE_API paceline_code paceline_end(paceline_worker* worker, const char* why, int64_t timeout_ms);

/* A warning of the loop's in the node's log, and on standard error. Thread: any, until paceline_close() is called.
 * Errors: FAILED_PRECONDITION not started, there is no log yet. */
PACELINE_API paceline_code paceline_warn(paceline_worker* worker, const char* text);

/* Ends the worker, as paceline_end(worker, "closed", -1) where it has not ended, and frees it. NULL: nothing.
 * Waits for an evaluate function that is called just now. */
PACELINE_API void paceline_close(paceline_worker* worker);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PACELINE_PACELINE_H_ */
