// zmq_* and a codec's: what each library says of itself.
#include <dlfcn.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/stubs/common.h>
#include <zmq.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/wire/versions.h"

namespace paceline::wire {
namespace {

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

// Protocol Buffers keep their run-time version to themselves, but its file carries it: libprotobuf.so.32.0.12
// is 3.21.12, patch for patch. "linked statically" where it is part of this program.
std::string protobuf_file() {
  Dl_info about = {};
  void* const symbol = reinterpret_cast<void*>(&google::protobuf::internal::VerifyVersion);
  if (dladdr(symbol, &about) == 0 || about.dli_fname == nullptr) return "an unknown file";
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(about.dli_fname, error);
  return error ? std::string(about.dli_fname) : file.filename().string();
}

}  // namespace

std::vector<LibraryVersion> library_versions() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  zmq_version(&major, &minor, &patch);
  return {{"libzmq", dotted(ZMQ_VERSION_MAJOR, ZMQ_VERSION_MINOR, ZMQ_VERSION_PATCH),
           dotted(major, minor, patch)},
          {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION), protobuf_file()}};
}

}  // namespace paceline::wire
