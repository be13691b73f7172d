#include "common/wire/zmq_curve.h"

#include <zmq.h>

#include <array>

namespace paceline::wire {
namespace {

using KeyText = std::array<char, kKeyCharacters + 1>;  // with the 0 behind it

std::string libzmq_version() {
  int major = 0, minor = 0, patch = 0;
  zmq_version(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

Status check_curve() {
  if (zmq_has("curve") == 1) return Status::ok();
  return failed_precondition(
      "libzmq " + libzmq_version() +
      " of this machine was built without CURVE, expected one with it (Debian's has it)");
}

Result<KeyPair> new_key_pair() {
  PACELINE_RETURN_IF_ERROR(check_curve());
  KeyText public_key{}, secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return internal_error(std::string("cannot make keys: ") + zmq_strerror(zmq_errno()));
  }
  return KeyPair{public_key.data(), secret_key.data()};
}

Result<std::string> public_key_of(const std::string& secret_key) {
  KeyText public_key{};
  if (!is_key(secret_key) || zmq_curve_public(public_key.data(), secret_key.c_str()) != 0) {
    return invalid_argument("no secret key");
  }
  return std::string(public_key.data());
}

bool is_key(const std::string& text) {
  std::array<std::uint8_t, kKeyCharacters / 5 * 4> bytes{};
  return text.size() == kKeyCharacters && text.find('\0') == std::string::npos &&
         zmq_z85_decode(bytes.data(), text.c_str()) != nullptr;
}

std::string key_text(const void* bytes) {
  KeyText text{};
  zmq_z85_encode(text.data(), static_cast<const std::uint8_t*>(bytes), kKeyCharacters / 5 * 4);
  return text.data();
}

}  // namespace paceline::wire
