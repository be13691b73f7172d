// PACELINE_HOST_DEVICE: before a function that a GPU kernel may call, too. To a compiler that knows no GPU it
// is nothing: so the arithmetic of a kernel is plain code, which the tests run without one.
#pragma once

#ifdef __CUDACC__
#define PACELINE_HOST_DEVICE __host__ __device__
#else
#define PACELINE_HOST_DEVICE
#endif
