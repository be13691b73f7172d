// A GPU that is none: the calls of the CUDA run time, cuDNN and cuBLAS that the CUDA back end makes, defined
// here and carried out on the processor in plain loops. Linked in the libraries' place, so that the back end
// is tested, under the sanitizers too, where there is no GPU.
//
// What it is strict about:
//   order      work that is put into a stream is done when somebody waits for it, and no sooner: what a
//              thread reads before it has waited, or a stream reads without having been told to wait, is not
//              there yet.
//              Work::kAtOnce is the other extreme: what is overwritten too soon is gone. With Work::kAtRandom
//              streams go on by chance whenever something is put into one, ahead of each other or behind.
//   memory     has NaN in it until it is written (every byte is 0xFF; of a block as large as cuBLAS' own, a
//              MiB at either end); it is the heap's, so that the address sanitizer watches it; a copy must
//              lie inside an allocation of the right kind, on the host pinned, and still do when it is made.
//   objects    those that were given back, or are of another kind, are refused; so is work in a stream
//              of another GPU than the thread's current one.
//   cuBLAS     matrices must lie inside allocations.
//   cuDNN      shapes must fit, tensors be aligned, the workspace must be as large as was said, and
//              is written over.
//
// What it says nothing about: rounding, speed, and whatever real libraries do beyond what is documented of
// them.
//
// Thread: any; calls run one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace paceline::fake_cuda {

enum class Work { kWhenWaitedFor, kAtOnce, kAtRandom };

// Whether what cuDNN has for the gradient of a filter gives the same bits each time, does not, or does not
// work.
enum class Filters { kRepeat, kVary, kFail };

struct Machine {
  int gpus = 1;
  int capability = 9;  // major
  Work work = Work::kWhenWaitedFor;
  std::uint64_t seed = 1;     // of kAtRandom
  float milliseconds = 0.0F;  // from one event that a stream comes to, of all, to the next
  Filters filters = Filters::kRepeat;
  std::size_t free_bytes = std::size_t{1} << 30;  // what each GPU says that it has, whatever was allocated
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

// Each copy from the host that was put into a stream or captured since set_up(): where from, and how many of
// waits() were before it.
struct Upload {
  const void* from;
  std::size_t waits;
};
std::vector<Upload> uploads();

// The next capture is spoilt by somebody else.
void spoil_capture();

// How many graphs were launched since set_up().
std::int64_t launches();

// Each convolution that was computed, as "forward algo 1 math 3 type 0", by cuDNN's numbers; and each matrix
// product, as "gemm compute 68 type 0", or several at a time, as "gemms …", by cuBLAS'.
std::vector<std::string> products();

}  // namespace paceline::fake_cuda
