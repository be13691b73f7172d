// Keeping freed memory in the process. libzmq allocates every large message anew; with glibc's defaults each
// one is a fresh mapping, and the page faults cost several times the copy (64 MiB: 2 GB/s into fresh pages,
// 14 GB/s into warm).
#pragma once

namespace paceline::wire {

// Tells glibc's allocator to serve large blocks from the heap, never to give memory back to the system, and
// to use one arena, so that a frame freed on ZeroMQ's thread is reused for the next frame. Affects the whole
// process: called once, first thing in a daemon's main, before any thread starts. Price: the process keeps
// its peak size.
void keep_freed_memory();

}  // namespace paceline::wire
