// The versions of the libraries behind the wire: ZeroMQ and Protocol Buffers.
#pragma once

#include <vector>

#include "common/library_version.h"

namespace paceline::wire {

std::vector<LibraryVersion> library_versions();

}  // namespace paceline::wire
