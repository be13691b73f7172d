// The memory that frames are received into and parameters lie in. libzmq allocates every large message anew;
// with glibc's defaults each one is a fresh mapping, and the page faults cost several times the copy (64 MiB:
// 2 GB/s into fresh pages, 14 GB/s into warm).
#pragma once

#include <cstddef>

namespace paceline::wire {

// Tells glibc's allocator to serve large blocks from the heap, never to give memory back to the system, and
// to use one arena, so that a frame freed on ZeroMQ's thread is reused for the next frame. Affects the whole
// process: called once, first thing in a daemon's main, before any thread starts. Price: the process keeps
// its peak size.
void keep_freed_memory();

// Asks for the next `bytes` of the heap to come in huge pages, where the system offers them to those who ask
// (madvise): fewer page faults, and fewer misses of the translation cache on every pass over the parameters.
// After keep_freed_memory(), and before what is to lie there is allocated. Nothing is touched: memory is
// used as it is written to, but 2 MiB at a time. The heap grows to that size, which counts as promised
// memory where the system keeps to its promises (vm.overcommit_memory = 2). At most half_of_memory() is asked
// for; where the system refuses, nothing happens. Thread: any. Returns the bytes that will come so: for
// tests.
std::size_t prefer_huge_pages(std::size_t bytes);

// This process gets no huge pages from here on, whatever it asks for and the system gives; nor do those that
// it starts. What has come so stays. Where the system cannot be told, nothing happens. Thread: any.
void do_without_huge_pages();

// Half of what this machine has, in bytes; 0 where the system does not say. The same in all its processes.
std::size_t half_of_memory();

}  // namespace paceline::wire
