/* A run's data for training loops of one's own (docs/DATA.md): pictures in folders, or files as CIFAR-10 has them, made
 * into mini-batches ahead of the loop by threads of the library's. The same samples, to the bit, that Paceline's own
 * networks train on.
 *
 *   paceline_data_open(&options, &data)          reads the configuration, and what is known of the data
 *   while (paceline_begin(worker, -1, &round) == PACELINE_OK) {
 *     paceline_data_train(data, round.position, round.samples, &batch);
 *     … computes a gradient with batch->images and batch->labels …
 *     paceline_batch_release(batch);
 *     paceline_finish(worker, &metric);
 *   }
 *   paceline_data_close(data);
 *
 * No run is needed: without one, a loop asks for the positions that paceline_data_about() tells.
 *
 * Errors, exceptions and signals: as in paceline.h. Threads: one at a time asks for training mini-batches; all other
 * functions may be called from any, at the same time.
 */
#ifndef PACELINE_DATA_H_
#define PACELINE_DATA_H_

#include "paceline.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct paceline_data paceline_data;

/* What there is, and which mini-batches are the node's. */
typedef struct paceline_about_data {
  int64_t train_samples;
  int64_t test_samples;
  int64_t channels; /* of a sample: red, green and blue */
  int64_t height;   /* pixels */
  int64_t width;
  int64_t classes;
  int64_t left_out; /* pictures that could not be read so far */
  /* The node's i-th mini-batch of `batch` samples begins at
   * position + i / in_a_row * stride + i % in_a_row * batch. stride 0: a pool (train.share) gives them out. */
  int64_t batch;
  int64_t position;
  int64_t stride;
  int64_t in_a_row;
} paceline_about_data;

/* A mini-batch. Its memory is the holder's, to be written as well, until paceline_batch_release(). */
typedef struct paceline_batch {
  float* images;    /* samples x channels x height x width, row-major, normalised */
  int64_t* labels;  /* `samples` of them: 0 to classes - 1 */
  int64_t* indices; /* likewise: which of the training or test set they are */
  int64_t samples;
} paceline_batch;

/* Opens the data of the configuration that `options` name (data:), for node `options->node`; `existing` says nothing
 * here. *data belongs to the caller, who gives it to paceline_data_close(). Errors, *data is then NULL: NOT_FOUND and
 * INVALID_ARGUMENT a configuration or data that are not there or not right; INTERNAL a picture that cannot be read,
 * under data.on_bad: fail. */
PACELINE_API paceline_code paceline_data_open(const paceline_options* options, paceline_data** data);

PACELINE_API paceline_code paceline_data_about(paceline_data* data, paceline_about_data* about);

/* The training samples at [position, position + samples) of the run's endless, shuffled and augmented row of samples,
 * as paceline_round has them. One that has been made ahead is only handed over. *batch is NULL on an error:
 * INVALID_ARGUMENT position < 0 or samples < 1; DEADLINE_EXCEEDED a thread of the library's has not finished it within
 * half a minute; INTERNAL a picture that cannot be read, under data.on_bad: fail. */
PACELINE_API paceline_code paceline_data_train(paceline_data* data, int64_t position, int64_t samples,
                                               paceline_batch** batch);

/* The test samples [first, first + samples), cut off at the set's end, without those that cannot be read: it may have
 * none. Made by the calling thread. Errors: INVALID_ARGUMENT first is not in [0, test_samples), or samples < 1; as
 * above. */
PACELINE_API paceline_code paceline_data_test(paceline_data* data, int64_t first, int64_t samples,
                                              paceline_batch** batch);

/* Gives a mini-batch back, also after paceline_data_close(). NULL: nothing. */
PACELINE_API void paceline_batch_release(paceline_batch* batch);

/* The oldest line about the data that has not been told yet, as of a picture that cannot be read; NULL: there is none.
 * Valid until this thread's next call. The last thousand are kept. */
PACELINE_API const char* paceline_data_warning(paceline_data* data);

/* Ends its threads, and frees it. NULL: nothing. Mini-batches that have not been given back stay as they are. */
PACELINE_API void paceline_data_close(paceline_data* data);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PACELINE_DATA_H_ */
