// A GPU that is none: the calls of the CUDA run time, cuDNN and cuBLAS that the CUDA back end makes, defined
// here and carried out on the processor in plain loops. Linked in the libraries' place, so that the back end
// is tested, under the sanitizers too, where there is no GPU.
//
// What it is strict about:
//   order      work that is put into a stream is done when somebody waits for it, and no sooner: what a
//   thread
//              reads before it has waited, or a stream without having been told to wait, is not there yet.
//              Work::kAtOnce is the other extreme: what is overwritten too soon is gone.
//   memory     has NaN in it until it is written (every byte is 0xFF); it is the heap's, so that the address
//              sanitizer watches it; a copy must lie inside an allocation of the right kind, on the host
//              pinned.
//   objects    those that were given back, or are of another kind, are refused; so is work in a stream of
//   another
//              GPU than the thread's current one.
//   cuDNN      shapes must fit, tensors be aligned, the workspace must be as large as was said, and is
//   written over.
//
// What it says nothing about: rounding, speed, and whatever real libraries do beyond what is documented of
// them.
//
// Thread: any; calls run one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::fake_cuda {

enum class Work { kWhenWaitedFor, kAtOnce };

struct Machine {
  int gpus = 1;
  int capability = 9;  // major
  Work work = Work::kWhenWaitedFor;
};

// Begins anew: counts and mistakes are forgotten, nothing fails. Nothing may be alive.
void set_up(const Machine& machine);

// The `nth` call from now on fails that can (1: the next); those that give something back cannot. 0: none.
void fail_call(std::int64_t nth);
// How many that can fail there were since set_up().
std::int64_t calls();
// The name of the one that was made to fail.
std::string failed_call();

// What has been made and not given back: memory, streams, events, handles, descriptors.
std::int64_t alive();

// What was done wrong and was answered with an error, one line each.
std::vector<std::string> mistakes();

// The calls that made the thread wait for a GPU, since set_up(), by name.
std::vector<std::string> waits();

// Each convolution that was computed, as "forward algo 1 math 3 type 0", by cuDNN's numbers; and each matrix
// product, as "gemm compute 68 type 0", by cuBLAS'.
std::vector<std::string> products();

}  // namespace paceline::fake_cuda
