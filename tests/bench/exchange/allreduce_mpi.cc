// MPI_Allreduce of float32 vectors, as tests/bench/allreduce_peers.py sets it beside ours.
//
//   mpirun -n 2 bench_allreduce_mpi 100 4096 262144 4194304 67108864
//
// For each number of bytes rank 0 prints it and the milliseconds of one reduction: of so many as take the milliseconds
// that are given first, after two that are not counted.
#define OMPI_SKIP_MPICXX 1  // the C functions alone
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const double seconds = argc > 1 ? 1e-3 * std::atof(argv[1]) : 0.0;
  for (int i = 2; i < argc; ++i) {
    const long long bytes = std::atoll(argv[i]);
    std::vector<float> vector(static_cast<std::size_t>(bytes) / sizeof(float));
    const auto reduce = [&] {
      MPI_Allreduce(MPI_IN_PLACE, vector.data(), static_cast<int>(vector.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
    };
    reduce();
    const double once_began = MPI_Wtime();
    reduce();
    int count = static_cast<int>(std::clamp(seconds / (MPI_Wtime() - once_began), 1.0, 400.0));
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    for (int k = 0; k < count; ++k) reduce();
    if (rank == 0) std::printf("%lld %.6f\n", bytes, 1e3 * (MPI_Wtime() - began) / count);
  }
  return MPI_Finalize();
}
