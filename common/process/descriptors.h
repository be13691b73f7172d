// File descriptors of this process: how many there may be, and how many of them are kept for files.
//
// A process that has none left can write no checkpoint and no model, and ZeroMQ ends it where it was about to
// accept a connection over ipc. So connections never get the last ones: accept(2) and accept4(2), which Boost
// and ZeroMQ call, are replaced for the whole program (descriptors.cc). A connection that would take a
// descriptor kept for files is closed at once; to its peer that is a network that broke, and it tries again.
//
//   limit 64, 16 kept:   0 … 47 connections and files   48 … 63 files alone
//
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

#include "common/status.h"

namespace paceline {

// The soft limit on open files becomes the hard one.
void raise_descriptor_limit();
// The limit now; kUnlimited where there is none.
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
std::uint64_t descriptor_limit();

// From now on connections that come in leave `count` descriptors to files. 0: none are kept.
void keep_descriptors_for_files(std::uint32_t count);
// Whether this one, just opened for something else than a file that is written, leaves them.
bool spares_descriptors_for_files(int descriptor);

// That this process may open `needed` files. `what`: whose need it is. Errors: kFailedPrecondition, both
// numbers and what to do.
[[nodiscard]] Status check_descriptors(std::uint64_t needed, const std::string& what);

}  // namespace paceline
